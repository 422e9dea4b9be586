//! Registers of four floats, where the processor has them.
//!
//! The package is built for any x86-64, whose registers hold two. A kernel that gains from more hands its loops to
//! [`widest`], which runs a second build of them on processors with AVX2. No operation is fused or moved to another
//! place, so both give the same bits.

/// Runs `work` as built for the widest registers that are known here. Only what is inlined into it is built so: its
/// functions are `#[inline(always)]`. Asking which processor this is takes a load.
#[inline]
pub(crate) fn widest<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = fearless_simd::Level::new().as_avx2() {
        return fearless_simd::Simd::vectorize(avx2, work);
    }
    work()
}
