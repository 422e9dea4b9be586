/* Calls to the system that fail when a test wants them to: a library for LD_PRELOAD on 64-bit Linux.

   It counts the calls on paths below one folder, and lets the n-th of a kind fail, be short, be torn, or be the last one of
   the process. What it has to do and what it did stand in a file that all processes of a test have mapped, so that it works
   in child processes too, and a test can read how far a process came that is dead. It also notes the files that have bytes
   which no fsync covers: what a power cut may take. `control.py` has the same layout and the meaning of its numbers. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, SYNC, RENAME, TRUNCATE, UNLINK, MKDIR, LIST, MAP, COPY, CLOSE, LOCK, STAT, MEMORY, CHANGE, KINDS };
enum { COUNT, FAIL, SHORT, TORN, KILL, DROP };
enum { PLACES = 8192, TEXT = 1024 };

struct control {
    int64_t armed, kind, nth, action, error, lasting, least;
    _Atomic int64_t fired, pid, unsynced, busy;
    _Atomic int64_t counts[KINDS];
    char folder[TEXT];
    char where[TEXT];
    int64_t inodes[PLACES];
};

static struct control *control;

/* Not by `mmap` of this file, which counts. */
static void *map(void *at, size_t size, int protection, int flags, int handle, off_t offset) {
    return (void *)syscall(SYS_mmap, at, size, protection, flags, handle, offset);
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAILING_CALLS");
    if (path == NULL) return;
    int handle = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (handle < 0) return;
    void *mapped = map(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    syscall(SYS_close, handle);
    if (mapped != MAP_FAILED) control = mapped;
}

static int armed(void) { return control != NULL && control->armed; }

static int is_below(const char *path) {
    size_t length = strlen(control->folder);
    return strncmp(path, control->folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* The path of a descriptor; one that is no file has a name that is below no folder. */
static void path_of(int handle, char *path) {
    char link[64];
    snprintf(link, sizeof link, handle == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", handle);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, TEXT - 1);
    path[length < 0 ? 0 : length] = 0;
}

static void path_at(int handle, const char *name, char *path) {
    if (name == NULL || name[0] == '/') {
        snprintf(path, TEXT, "%s", name == NULL ? "" : name);
        return;
    }
    char folder[TEXT];
    path_of(handle, folder);
    snprintf(path, TEXT, name[0] ? "%s/%s" : "%s", folder, name);
}

static int changes(int kind) {
    return kind == WRITE || kind == SYNC || kind == RENAME || kind == TRUNCATE || kind == UNLINK || kind == MKDIR || kind == COPY;
}

/* What is to happen to this call. */
static int due(int kind, const char *call, const char *path) {
    int64_t number = atomic_fetch_add(&control->counts[kind], 1) + 1;
    if (control->kind == CHANGE) number = changes(kind) ? atomic_fetch_add(&control->counts[CHANGE], 1) + 1 : 0;
    else if (changes(kind)) atomic_fetch_add(&control->counts[CHANGE], 1);
    if (control->kind != kind && control->kind != CHANGE) return COUNT;
    if (number == 0 || control->nth == 0 || (control->lasting ? number < control->nth : number != control->nth)) return COUNT;
    if (atomic_fetch_add(&control->fired, 1) == 0) {
        atomic_store(&control->pid, getpid());
        snprintf(control->where, TEXT, "%s %s", call, path);
    }
    if (control->action == KILL) {
        syscall(SYS_kill, getpid(), SIGKILL);
        for (;;) pause();
    }
    return (int)control->action;
}

static int due_at(int kind, const char *call, int handle, const char *name) {
    if (!armed()) return COUNT;
    int before = errno;
    char path[TEXT];
    path_at(handle, name, path);
    int action = is_below(path) ? due(kind, call, path) : COUNT;
    errno = before;
    return action;
}

static int due_on(int kind, const char *call, int handle) {
    return due_at(kind, call, handle, "");
}

static int failed(void) {
    errno = (int)control->error;
    return -1;
}

/* Files with bytes that are not synced, by their inode. */
static void note(int handle, int is_synced) {
    if (!armed()) return;
    int before = errno;
    char path[TEXT];
    struct stat status;
    path_of(handle, path);
    if (is_below(path) && syscall(SYS_fstat, handle, &status) == 0 && S_ISREG(status.st_mode)) {
        int64_t inode = (int64_t)status.st_ino, idle = 0;
        while (!atomic_compare_exchange_weak(&control->busy, &idle, 1)) idle = 0;
        int64_t count = atomic_load(&control->unsynced), place = 0;
        while (place < count && control->inodes[place] != inode) place++;
        if (is_synced && place < count) {
            control->inodes[place] = control->inodes[count - 1];
            atomic_store(&control->unsynced, count - 1);
        } else if (!is_synced && place == count && count < PLACES) {
            control->inodes[count] = inode;
            atomic_store(&control->unsynced, count + 1);
        }
        atomic_store(&control->busy, 0);
    }
    errno = before;
}

static size_t half(size_t size) { return size > 1 ? size / 2 : size; }

#define REAL(name) static __typeof__(&name) real; if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAILS(kind, call, handle, path) do { if (due_at(kind, call, handle, path) != COUNT) return failed(); } while (0)

/* --- open --- */

static int opened(const char *call, int handle, const char *path, int flags, mode_t mode) {
    FAILS(OPEN, call, handle, path);
    return (int)syscall(SYS_openat, handle, path, flags, mode);
}

static mode_t mode_of(int flags, va_list more) {
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
}

#define OPEN_CALL(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = mode_of(flags, more); va_end(more); \
        return opened("open", AT_FDCWD, path, flags, mode); \
    }
#define OPEN_AT_CALL(name) \
    int name(int handle, const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = mode_of(flags, more); va_end(more); \
        return opened("open", handle, path, flags, mode); \
    }
OPEN_CALL(open)
OPEN_CALL(open64)
OPEN_AT_CALL(openat)
OPEN_AT_CALL(openat64)

int close(int handle) {
    int action = due_on(CLOSE, "close", handle);
    int done = (int)syscall(SYS_close, handle);
    return action == COUNT ? done : failed();  /* it is closed all the same, as on Linux */
}

/* --- read --- */

ssize_t read(int handle, void *into, size_t size) {
    int action = due_on(READ, "read", handle);
    if (action == FAIL) return failed();
    return syscall(SYS_read, handle, into, action == SHORT ? half(size) : size);
}

static ssize_t read_at(int handle, void *into, size_t size, off_t at) {
    int action = due_on(READ, "pread", handle);
    if (action == FAIL) return failed();
    return syscall(SYS_pread64, handle, into, action == SHORT ? half(size) : size, at);
}

ssize_t pread(int handle, void *into, size_t size, off_t at) { return read_at(handle, into, size, at); }
ssize_t pread64(int handle, void *into, size_t size, off_t at) { return read_at(handle, into, size, at); }

ssize_t readv(int handle, const struct iovec *into, int count) {
    int action = due_on(READ, "readv", handle);
    if (action == FAIL) return failed();
    return syscall(SYS_readv, handle, into, action == SHORT ? 1 : count);
}

/* --- write --- */

ssize_t write(int handle, const void *from, size_t size) {
    int action = due_on(WRITE, "write", handle);
    if (action == FAIL) return failed();
    ssize_t done = syscall(SYS_write, handle, from, action == COUNT ? size : half(size));
    note(handle, 0);
    return action == TORN ? failed() : done;
}

static ssize_t write_at(int handle, const void *from, size_t size, off_t at) {
    int action = due_on(WRITE, "pwrite", handle);
    if (action == FAIL) return failed();
    ssize_t done = syscall(SYS_pwrite64, handle, from, action == COUNT ? size : half(size), at);
    note(handle, 0);
    return action == TORN ? failed() : done;
}

ssize_t pwrite(int handle, const void *from, size_t size, off_t at) { return write_at(handle, from, size, at); }
ssize_t pwrite64(int handle, const void *from, size_t size, off_t at) { return write_at(handle, from, size, at); }

ssize_t writev(int handle, const struct iovec *from, int count) {
    int action = due_on(WRITE, "writev", handle);
    if (action == FAIL) return failed();
    ssize_t done = syscall(SYS_writev, handle, from, action == COUNT ? count : 1);
    note(handle, 0);
    return action == TORN ? failed() : done;
}

static ssize_t copied(const char *call, int into, size_t size, int *action) {
    *action = due_on(COPY, call, into);
    return *action == FAIL ? failed() : (ssize_t)(*action == COUNT ? size : half(size));
}

ssize_t copy_file_range(int from, off_t *at, int into, off_t *place, size_t size, unsigned flags) {
    int action;
    ssize_t room = copied("copy_file_range", into, size, &action);
    if (room < 0) return room;
    ssize_t done = syscall(SYS_copy_file_range, from, at, into, place, room, flags);
    note(into, 0);
    return action == TORN ? failed() : done;
}

static ssize_t sent(int into, int from, off_t *at, size_t size) {
    int action;
    ssize_t room = copied("sendfile", into, size, &action);
    if (room < 0) return room;
    ssize_t done = syscall(SYS_sendfile, into, from, at, room);
    note(into, 0);
    return action == TORN ? failed() : done;
}

ssize_t sendfile(int into, int from, off_t *at, size_t size) { return sent(into, from, at, size); }
ssize_t sendfile64(int into, int from, off_t *at, size_t size) { return sent(into, from, at, size); }

/* --- sync --- */

static int synced(const char *call, long number, int handle) {
    int action = due_on(SYNC, call, handle);
    if (action == DROP) return 0;
    if (action != COUNT) return failed();
    int done = (int)syscall(number, handle);
    if (done == 0) note(handle, 1);
    return done;
}

int fsync(int handle) { return synced("fsync", SYS_fsync, handle); }
int fdatasync(int handle) { return synced("fdatasync", SYS_fdatasync, handle); }

/* --- names --- */

static int renamed(const char *call, int from, const char *old, int into, const char *new, unsigned flags) {
    FAILS(RENAME, call, into, new);
    return (int)syscall(SYS_renameat2, from, old, into, new, flags);
}

int rename(const char *old, const char *new) { return renamed("rename", AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int into, const char *new) {
    return renamed("renameat", from, old, into, new, 0);
}
int renameat2(int from, const char *old, int into, const char *new, unsigned flags) {
    return renamed("renameat2", from, old, into, new, flags);
}

static int linked(const char *call, int from, const char *old, int into, const char *new, int flags) {
    FAILS(RENAME, call, into, new);
    return (int)syscall(SYS_linkat, from, old, into, new, flags);
}

int link(const char *old, const char *new) { return linked("link", AT_FDCWD, old, AT_FDCWD, new, 0); }
int linkat(int from, const char *old, int into, const char *new, int flags) {
    return linked("linkat", from, old, into, new, flags);
}

static int removed(const char *call, int handle, const char *path, int flags) {
    FAILS(UNLINK, call, handle, path);
    return (int)syscall(SYS_unlinkat, handle, path, flags);
}

int unlink(const char *path) { return removed("unlink", AT_FDCWD, path, 0); }
int unlinkat(int handle, const char *path, int flags) { return removed("unlinkat", handle, path, flags); }
int rmdir(const char *path) { return removed("rmdir", AT_FDCWD, path, AT_REMOVEDIR); }

static int made(const char *call, int handle, const char *path, mode_t mode) {
    FAILS(MKDIR, call, handle, path);
    return (int)syscall(SYS_mkdirat, handle, path, mode);
}

int mkdir(const char *path, mode_t mode) { return made("mkdir", AT_FDCWD, path, mode); }
int mkdirat(int handle, const char *path, mode_t mode) { return made("mkdirat", handle, path, mode); }

static int cut(const char *call, int handle, off_t size) {
    if (due_on(TRUNCATE, call, handle) != COUNT) return failed();
    int done = (int)syscall(SYS_ftruncate, handle, size);
    note(handle, 0);
    return done;
}

int ftruncate(int handle, off_t size) { return cut("ftruncate", handle, size); }
int ftruncate64(int handle, off_t size) { return cut("ftruncate", handle, size); }

int truncate(const char *path, off_t size) {
    FAILS(TRUNCATE, "truncate", AT_FDCWD, path);
    return (int)syscall(SYS_truncate, path, size);
}

int truncate64(const char *path, off_t size) {
    FAILS(TRUNCATE, "truncate", AT_FDCWD, path);
    return (int)syscall(SYS_truncate, path, size);
}

/* --- folders, locks, states --- */

struct __dirstream;

struct __dirstream *opendir(const char *path) {
    static struct __dirstream *(*real)(const char *);
    if (real == NULL) real = (struct __dirstream * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    if (due_at(LIST, "opendir", AT_FDCWD, path) != COUNT) return failed(), NULL;
    return real(path);
}

struct __dirstream *fdopendir(int handle) {
    static struct __dirstream *(*real)(int);
    if (real == NULL) real = (struct __dirstream * (*)(int)) dlsym(RTLD_NEXT, "fdopendir");
    if (due_on(LIST, "fdopendir", handle) != COUNT) return failed(), NULL;
    return real(handle);
}

int flock(int handle, int operation) {
    if (due_on(LOCK, "flock", handle) != COUNT) return failed();
    return (int)syscall(SYS_flock, handle, operation);
}

int stat(const char *path, struct stat *status) {
    REAL(stat);
    FAILS(STAT, "stat", AT_FDCWD, path);
    return real(path, status);
}

int stat64(const char *path, struct stat64 *status) {
    REAL(stat64);
    FAILS(STAT, "stat", AT_FDCWD, path);
    return real(path, status);
}

int lstat(const char *path, struct stat *status) {
    REAL(lstat);
    FAILS(STAT, "lstat", AT_FDCWD, path);
    return real(path, status);
}

int lstat64(const char *path, struct stat64 *status) {
    REAL(lstat64);
    FAILS(STAT, "lstat", AT_FDCWD, path);
    return real(path, status);
}

int fstatat(int handle, const char *path, struct stat *status, int flags) {
    REAL(fstatat);
    FAILS(STAT, "fstatat", handle, path);
    return real(handle, path, status, flags);
}

int fstatat64(int handle, const char *path, struct stat64 *status, int flags) {
    REAL(fstatat64);
    FAILS(STAT, "fstatat", handle, path);
    return real(handle, path, status, flags);
}

int statx(int handle, const char *path, int flags, unsigned mask, struct statx *status) {
    REAL(statx);
    FAILS(STAT, "statx", handle, path);
    return real(handle, path, flags, mask, status);
}

int fstat(int handle, struct stat *status) {
    REAL(fstat);
    if (due_on(STAT, "fstat", handle) != COUNT) return failed();
    return real(handle, status);
}

int fstat64(int handle, struct stat64 *status) {
    REAL(fstat64);
    if (due_on(STAT, "fstat", handle) != COUNT) return failed();
    return real(handle, status);
}

/* --- memory: of a file, or of the process --- */

static int has_no_room(const char *call, size_t size) {
    if (!armed() || (int64_t)size < control->least) return 0;
    int before = errno, refused = due(MEMORY, call, "") != COUNT;
    errno = refused ? ENOMEM : before;
    return refused;
}

static void *mapped(void *at, size_t size, int protection, int flags, int handle, off_t offset) {
    if (flags & MAP_ANONYMOUS) {
        /* reserved addresses take no memory */
        if (protection != PROT_NONE && !(flags & MAP_FIXED) && has_no_room("mmap", size)) return MAP_FAILED;
    } else if (due_on(MAP, "mmap", handle) != COUNT) {
        failed();
        return MAP_FAILED;
    }
    return map(at, size, protection, flags, handle, offset);
}

void *mmap(void *at, size_t size, int protection, int flags, int handle, off_t offset) {
    return mapped(at, size, protection, flags, handle, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int handle, off_t offset) {
    return mapped(at, size, protection, flags, handle, offset);
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) { return has_no_room("malloc", size) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes) && has_no_room("calloc", bytes)) return NULL;
    return __libc_calloc(count, size);
}

void *realloc(void *from, size_t size) {
    return has_no_room("realloc", size) ? NULL : __libc_realloc(from, size);
}

void *memalign(size_t boundary, size_t size) {
    return has_no_room("memalign", size) ? NULL : __libc_memalign(boundary, size);
}

void *aligned_alloc(size_t boundary, size_t size) {
    return has_no_room("aligned_alloc", size) ? NULL : __libc_memalign(boundary, size);
}

int posix_memalign(void **into, size_t boundary, size_t size) {
    if (has_no_room("posix_memalign", size)) return ENOMEM;
    void *found = __libc_memalign(boundary, size);
    if (found == NULL) return ENOMEM;
    *into = found;
    return 0;
}
