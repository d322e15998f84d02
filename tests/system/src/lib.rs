//! What the tests of the whole system run: the product with every port wrapped, and the measuring harness.

pub mod crash;
pub mod fetching;
pub mod real_binary;
