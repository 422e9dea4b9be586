//! Memory that was freed goes back to the system.

/// Returns what reading has freed. Buffers of blocks lie between the columns that stay, and glibc keeps their pages: after
/// 200,000 small files a third of the process is free and resident. It takes a millisecond for each 100 MB.
pub(crate) fn return_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code)]
    // SAFETY: `malloc_trim` takes no pointer, locks each arena, and changes nothing that anybody holds.
    unsafe {
        libc::malloc_trim(0);
    }
}
