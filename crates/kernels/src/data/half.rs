//! The two 16-bit float formats of checkpoints, widened exactly and narrowed to nearest even.

/// bfloat16 bits to `f32`, exact.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// `f32` to the nearest bfloat16 (ties to even); NaN stays NaN.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// IEEE half-precision bits to `f32`, exact. Free of branches, so that loops over it vectorise.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let sign = u32::from(bits & 0x8000) << 16;
    // Exponents are off by 112 between the formats; multiplying shifts them and normalises subnormals in one exact step.
    let shifted = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    // Infinities and NaN keep an all-ones exponent.
    let special = if magnitude >= 0x1f << 23 {
        0xff << 23
    } else {
        0
    };
    f32::from_bits(shifted.to_bits() | special | sign)
}

/// `f32` to the nearest half-precision value (ties to even), overflowing to infinity; NaN stays NaN.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > 0x7f80_0000 {
        0x7e00
    } else if magnitude >= 0x4780_0000 {
        0x7c00
    } else if magnitude < 0x3880_0000 {
        // Subnormal or zero in half precision: adding 0.5 aligns the last kept bit with the float's last bit.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0x3f00_0000
    } else {
        (magnitude - 0x3800_0000 + 0xfff + (magnitude >> 13 & 1)) >> 13
    };
    sign | half as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_round_trip() {
        for bits in 0..=u16::MAX {
            let wide = f16_to_f32(bits);
            if bits & 0x7fff > 0x7c00 {
                assert!(
                    wide.is_nan() && f32_to_f16(wide) & 0x7fff > 0x7c00,
                    "{bits:#x}"
                );
            } else {
                assert_eq!(f32_to_f16(wide), bits, "{bits:#x}");
            }
            let wide = bf16_to_f32(bits);
            assert!(
                wide.is_nan() && bf16_to_f32(f32_to_bf16(wide)).is_nan()
                    || f32_to_bf16(wide) == bits,
                "{bits:#x}"
            );
        }
        assert_eq!(f16_to_f32(0x0001), 2f32.powi(-24));
        assert_eq!(f16_to_f32(0x7bff), 65504.0);
        assert_eq!(f16_to_f32(0xfc00), f32::NEG_INFINITY);
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        for (value, half) in [
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (1e9, 0x7c00),
            (2049.0, 0x6800),
            (2051.0, 0x6802),
        ] {
            assert_eq!(f32_to_f16(value), half, "{value}");
            assert_eq!(f32_to_f16(-value), half | 0x8000, "-{value}");
        }
        assert_eq!(f32_to_f16(2f32.powi(-25)), 0);
        assert_eq!(f32_to_f16(2f32.powi(-25) * 1.0001), 1);
        assert_eq!(f32_to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(f32_to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
    }
}
