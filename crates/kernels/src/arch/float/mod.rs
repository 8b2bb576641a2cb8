//! The float steps between the matrix products: norms, rotary embedding, activations, attention.
//!
//! Each is written once over [`lanes::Lanes`] and stamped out for every instruction set by `float_table!`, so all tables give
//! the same bits.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod dense;
pub(crate) mod lanes;
pub(crate) mod norm;
pub(crate) mod rope;
pub(crate) mod table;
