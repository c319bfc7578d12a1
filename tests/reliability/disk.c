/* Stands before the C library's calls that change a disk, whoever makes them: Python, safetensors (Rust), torch (C++).

   It counts those on paths under one folder. At the n-th the process is killed; or from the n-th on they fail with an
   error, as on a disk that is full (ENOSPC: what removes or moves still works) or read-only (EROFS: nothing does). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static size_t root_length;
static long fails_at, counted;
static int fails_with; /* an errno; 0 kills */

void arm(const char *folder, long n, int error) {
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    fails_at = n, fails_with = error, counted = 0;
}

long calls(void) { return counted; }

static int is_ours(const char *path) {
    return root_length && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static int is_open_here(int number) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", number);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

static int is_at(int folder, const char *path) {
    return path[0] == '/' || folder == AT_FDCWD ? is_ours(path) : is_open_here(folder);
}

/* Whether this call fails. `takes_space`: it would need room on the disk. */
static int fails(int ours, int takes_space) {
    if (!root_length || !ours || (fails_with == ENOSPC && !takes_space)) return 0;
    if (++counted < fails_at || !fails_at) return 0;
    if (!fails_with) raise(SIGKILL);
    errno = fails_with;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define BEFORE(type, name, args, given, ours, takes_space) \
    type name args { return root_length && fails(ours, takes_space) ? -1 : REAL(name) given; }

BEFORE(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size), is_open_here(fd), 1)
BEFORE(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at), is_open_here(fd), 1)
BEFORE(ssize_t, writev, (int fd, const struct iovec *from, int count), (fd, from, count), is_open_here(fd), 1)
BEFORE(ssize_t, sendfile64, (int to, int from, off64_t *at, size_t size), (to, from, at, size), is_open_here(to), 1)
BEFORE(ssize_t, copy_file_range, (int from, off64_t *in, int to, off64_t *out, size_t size, unsigned flags),
       (from, in, to, out, size, flags), is_open_here(to), 1)
BEFORE(int, ftruncate64, (int fd, off64_t size), (fd, size), is_open_here(fd), 1)
BEFORE(int, fsync, (int fd), (fd), is_open_here(fd), 1)
BEFORE(int, fdatasync, (int fd), (fd), is_open_here(fd), 1)
BEFORE(int, mkdir, (const char *path, mode_t mode), (path, mode), is_ours(path), 1)
BEFORE(int, rename, (const char *from, const char *to), (from, to), is_ours(to), 0)
BEFORE(int, unlink, (const char *path), (path), is_ours(path), 0)
BEFORE(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), is_at(folder, path), 0)
BEFORE(int, rmdir, (const char *path), (path), is_ours(path), 0)

#define OPENS(name, args, given, ours)                                                     \
    int name args {                                                                        \
        mode_t mode = 0;                                                                   \
        if (flags & O_CREAT) {                                                             \
            va_list more;                                                                  \
            va_start(more, flags);                                                         \
            mode = va_arg(more, mode_t);                                                   \
            va_end(more);                                                                  \
        }                                                                                  \
        if (root_length && (flags & (O_CREAT | O_WRONLY | O_RDWR)) && fails(ours, flags & O_CREAT)) return -1; \
        return REAL(name) given;                                                           \
    }

OPENS(open, (const char *path, int flags, ...), (path, flags, mode), is_ours(path))
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode), is_ours(path))
OPENS(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), is_at(folder, path))
OPENS(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode), is_at(folder, path))
