//! Arithmetic on slices for the Maple language model: packed ternary products and the float steps around them.
