//! State that a long call shares with its caller: threads, the cancel flag, progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::ThreadPool;

use crate::error::{Error, Result};

/// Control block of one call. The caller keeps an `Arc` of it, sets the flag and reads the counters.
#[derive(Debug)]
pub struct Run {
    pool: Arc<ThreadPool>,
    cancel: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
}

/// The pools that calls share.
static POOLS: Mutex<Pools> = Mutex::new(Pools { process: 0, shared: Vec::new() });

/// The pool of the machine's cores, and the last one of another size: whoever asks for many sizes one after the other
/// would else leave the threads of all of them behind.
struct Pools {
    process: u32,
    shared: Vec<Arc<ThreadPool>>,
}

/// More threads than any machine needs; the system may die of a number beyond it.
const MAX_THREADS: usize = 1024;

/// The machine's cores, asked for once: the answer is put together from several files.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS))
}

impl Pools {
    /// The pool of so many threads; one of another size ends when the calls that use it have.
    fn of(&mut self, threads: usize) -> Result<Arc<ThreadPool>> {
        let process = std::process::id();
        if self.process != process {
            // A child after `fork` has none of its parent's threads, and whoever ends a pool wakes them.
            std::mem::take(&mut self.shared).into_iter().for_each(std::mem::forget);
            self.process = process;
        }
        if let Some(pool) = self.shared.iter().find(|pool| pool.current_num_threads() == threads) {
            return Ok(Arc::clone(pool));
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("orchestrace-{i}"))
            .build()
            .map_err(|e| Error::Input(format!("cannot start {threads} threads: {e}")))?;
        let pool = Arc::new(pool);
        if threads != cores() {
            self.shared.retain(|other| other.current_num_threads() == cores());
        }
        self.shared.push(Arc::clone(&pool));
        Ok(pool)
    }
}

impl Run {
    /// A run on `threads` threads, at most 1,024; `None` means the machine's cores.
    pub fn new(threads: Option<usize>) -> Result<Self> {
        let threads = match threads {
            Some(0) => return Err(Error::Parameter("threads is 0, expected at least 1".into())),
            Some(n) if n > MAX_THREADS => {
                return Err(Error::Parameter(format!("threads is {n}, expected at most {MAX_THREADS}")));
            }
            Some(n) => n,
            None => cores(),
        };
        let pool = POOLS.lock().unwrap_or_else(PoisonError::into_inner).of(threads)?;
        Ok(Self { pool, cancel: AtomicBool::new(false), done: AtomicU64::new(0), total: AtomicU64::new(0) })
    }

    /// The threads.
    #[must_use]
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// Does `f` with every piece of `work`. The calling thread takes its part: what lasts a millisecond would otherwise
    /// wait as long for threads to wake. Pieces are begun in order, and of several errors it is that of the first.
    pub fn share<T: Send>(&self, work: Vec<T>, f: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
        let others = self.pool.current_num_threads().min(work.len()).saturating_sub(1);
        let queue = Mutex::new(work.into_iter().enumerate());
        let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        let take = || {
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((at, piece)) = next else { return };
                if let Err(error) = f(piece) {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if failed.as_ref().is_none_or(|(before, _)| at < *before) {
                        *failed = Some((at, error));
                    }
                    return;
                }
            }
        };
        self.pool.in_place_scope(|scope| {
            (0..others).for_each(|_| scope.spawn(|_| take()));
            take();
        });
        let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Asks the workers to stop; they look every block.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    /// The flag, for kernels that take it by reference.
    #[must_use]
    pub fn cancel_flag(&self) -> &AtomicBool {
        &self.cancel
    }

    /// An error if somebody asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Counts work as done.
    pub fn advance(&self, amount: u64) {
        self.done.fetch_add(amount, Ordering::Relaxed);
    }

    /// The counter of work done, for kernels that take it by reference.
    #[must_use]
    pub fn done_counter(&self) -> &AtomicU64 {
        &self.done
    }

    /// Announces work.
    pub fn expect(&self, amount: u64) {
        self.total.fetch_add(amount, Ordering::Relaxed);
    }

    /// Work done and announced so far; bytes while reading, rows elsewhere.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_each_size_is_not_kept() {
        let mut pools = Pools { process: 0, shared: Vec::new() };
        let usual = pools.of(cores()).unwrap();
        for threads in 1..=cores() + 9 {
            let pool = pools.of(threads).unwrap();
            assert!(Arc::ptr_eq(&pool, &pools.of(threads).unwrap()));
            assert!(pools.shared.len() <= 2);
        }
        assert!(Arc::ptr_eq(&usual, &pools.of(cores()).unwrap()));
    }

    #[test]
    fn work_is_shared_and_the_first_error_told() {
        for threads in [1, 2, 7] {
            let run = Run::new(Some(threads)).unwrap();
            let mut out = vec![0_usize; 1000];
            let pieces: Vec<(usize, &mut [usize])> = out.chunks_mut(7).enumerate().collect();
            run.share(pieces, |(at, piece)| {
                piece.fill(at);
                Ok(())
            })
            .unwrap();
            assert!(out.iter().enumerate().all(|(i, &at)| at == i / 7));
            run.share(Vec::<u8>::new(), |_| Err(Error::Cancelled)).unwrap();
            let error = run.share(vec![0], |n| Err(Error::Parameter(format!("piece {n}")))).unwrap_err();
            assert_eq!(error.to_string(), "piece 0");
        }
    }
}
