//! Cutting the rows of a batch into tiles.

/// Cuts `0 .. len` into as few parts of at most `max` as it takes, whose lengths differ by one at most: a kernel for few rows
/// does less with each byte of the weights than one for many, so no part should be left over.
#[inline(always)]
pub(crate) fn even_parts(len: usize, max: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let parts = len.div_ceil(max);
    (0..parts).map(move |i| len * i / parts..len * (i + 1) / parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_even_and_complete() {
        for max in [1, 3, 6] {
            for len in 0..40 {
                let parts: Vec<_> = even_parts(len, max).collect();
                assert_eq!(parts.len(), len.div_ceil(max));
                let all: Vec<usize> = parts.iter().cloned().flatten().collect();
                assert_eq!(all, (0..len).collect::<Vec<_>>());
                let lengths = || parts.iter().map(std::ops::Range::len);
                let (shortest, longest) = (lengths().min(), lengths().max());
                assert!(longest <= shortest.map(|least| max.min(least + 1)));
            }
        }
    }
}
