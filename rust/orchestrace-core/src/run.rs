//! What a long call shares with its caller: threads, the cancel flag, progress.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// Pools by process and size: a child process after `fork` finds none of its parent's and builds its own.
static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

/// By process id and number of threads.
type Pools = HashMap<(u32, usize), Arc<ThreadPool>>;

/// More threads than any machine needs; the system may die of a number beyond it.
const MAX_THREADS: usize = 1024;

impl Run {
    /// A run on `threads` threads, at most 1,024; `None` means the machine's cores.
    pub fn new(threads: Option<usize>) -> Result<Self> {
        let threads = match threads {
            Some(0) => return Err(Error::Parameter("threads is 0, expected at least 1".into())),
            Some(n) if n > MAX_THREADS => {
                return Err(Error::Parameter(format!("threads is {n}, expected at most {MAX_THREADS}")));
            }
            Some(n) => n,
            None => std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS),
        };
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (std::process::id(), threads);
        let pools = pools.get_or_insert_with(HashMap::new);
        let pool = if let Some(pool) = pools.get(&key) {
            Arc::clone(pool)
        } else {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .thread_name(|i| format!("orchestrace-{i}"))
                .build()
                .map_err(|e| Error::Input(format!("cannot start {threads} threads: {e}")))?;
            let pool = Arc::new(pool);
            pools.insert(key, Arc::clone(&pool));
            pool
        };
        Ok(Self { pool, cancel: AtomicBool::new(false), done: AtomicU64::new(0), total: AtomicU64::new(0) })
    }

    /// The threads.
    #[must_use]
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
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
