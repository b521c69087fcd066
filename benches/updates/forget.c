// A disk that forgets: below the folder FORGET nothing is in a file before the file is synced, and no name is there before
// its folder is. What a kill finds unsynced was never written. Loaded before a program with LD_PRELOAD; the one that is
// tested knows nothing of it. Takes in what Rust's standard library calls: open64, write, writev, pwrite64, fsync, fdatasync,
// rename, unlink. Refuses what it could not hold back, as file systems do that have no such thing, and the program goes another
// way: copy_file_range, sendfile64, renameat2.
//
// While there is a file FORGET_READS, every eighth file of a zone that is to be read cannot be, and the next time it can.
//
// Is not held back: ftruncate, fallocate, mkdir, linkat, and that a file is unlinked, all of which are there at once and stay; what
// is written through a map, by splice, or into a file that is open for appending; calls past the C library. What is held back is
// read by nobody, the program itself included, before it is synced.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct piece { dev_t dev; ino_t ino; off_t at; size_t len; char *octets; struct piece *next; };
// A file that stands under `real` until its folder is synced, and is to be called `name`.
struct entry { char real[PATH_MAX + 16], name[PATH_MAX + 16]; struct entry *next; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *first, **last = &first;
static struct entry *entries;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// It cannot do what it is for any more.
static void fail(const char *what, const char *which) {
    dprintf(2, "forget: %s %s: %s\n", what, which, strerror(errno));
    abort();
}

static int is_ours(const char *path) {
    const char *folder = getenv("FORGET");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return is_ours(path);
}

static const char *absolute(const char *path, char *room) {
    if (path[0] == '/') return path;
    char here[PATH_MAX / 2];
    if (!getcwd(here, sizeof here)) return path;
    snprintf(room, PATH_MAX, "%s/%s", here, path);
    return room;
}

static int is_unreadable(const char *name) {
    static _Atomic unsigned asked;
    const char *flag = getenv("FORGET_READS"), *end = strrchr(name, '.');
    return end && !strcmp(end, ".zone") && flag && !access(flag, F_OK) && ++asked % 8 == 0;
}

static struct entry *named(const char *name) {
    struct entry *e = entries;
    while (e && strcmp(e->name, name)) e = e->next;
    return e;
}

static struct entry *enter(const char *real, const char *name) {
    struct entry *e = calloc(1, sizeof *e);
    snprintf(e->real, sizeof e->real, "%s", real);
    snprintf(e->name, sizeof e->name, "%s", name);
    e->next = entries;
    return entries = e;
}

// What is held back of a file, given to it or let go of.
static void end_of(int fd, int is_given) {
    struct stat s;
    if (fstat(fd, &s)) return;
    for (struct piece **at = &first; *at;) {
        struct piece *p = *at;
        if (p->dev != s.st_dev || p->ino != s.st_ino) {
            at = &p->next;
            continue;
        }
        if (is_given && REAL(pwrite64)(fd, p->octets, p->len, p->at) != (ssize_t)p->len) fail("cannot write", "what was held back");
        *at = p->next;
        free(p->octets);
        free(p);
    }
    for (last = &first; *last;) last = &(*last)->next;
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    char room[PATH_MAX], real[PATH_MAX + 16];
    const char *name = absolute(path, room);
    if (!is_ours(name)) return REAL(open64)(path, flags, mode);
    if ((flags & O_ACCMODE) == O_RDONLY && is_unreadable(name)) {
        errno = EMFILE;
        return -1;
    }
    pthread_mutex_lock(&lock);
    struct entry *e = named(name);
    snprintf(real, sizeof real, "%s", e ? e->real : name);
    int is_new = !e && flags & O_CREAT && access(name, F_OK);
    if (is_new) {
        snprintf(real, sizeof real, "%s.unnamed", name);
        enter(real, name);
        flags |= O_TRUNC;
        flags &= ~O_EXCL;
    }
    int fd = REAL(open64)(real, flags, mode);
    // One that was removed before it was synced may have had its number.
    if (is_new && fd >= 0) end_of(fd, 0);
    pthread_mutex_unlock(&lock);
    return fd;
}

static int hold(int fd, const void *octets, size_t len, off_t at) {
    struct stat s;
    if (fstat(fd, &s) || !S_ISREG(s.st_mode)) return 0;
    struct piece *p = malloc(sizeof *p);
    *p = (struct piece){s.st_dev, s.st_ino, at, len, malloc(len), NULL};
    memcpy(p->octets, octets, len);
    pthread_mutex_lock(&lock);
    *last = p;
    last = &p->next;
    pthread_mutex_unlock(&lock);
    return 1;
}

ssize_t write(int fd, const void *octets, size_t len) {
    char path[PATH_MAX];
    if (!getenv("FORGET") || !path_of(fd, path)) return REAL(write)(fd, octets, len);
    off_t at = lseek(fd, 0, SEEK_CUR);
    if (at < 0 || !hold(fd, octets, len, at)) return REAL(write)(fd, octets, len);
    lseek(fd, len, SEEK_CUR);
    return len;
}

ssize_t pwrite64(int fd, const void *octets, size_t len, off64_t at) {
    char path[PATH_MAX];
    if (!path_of(fd, path) || !hold(fd, octets, len, at)) return REAL(pwrite64)(fd, octets, len, at);
    return len;
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    char path[PATH_MAX];
    if (!path_of(fd, path)) return REAL(writev)(fd, pieces, count);
    ssize_t written = 0;
    for (int i = 0; i < count; i++) {
        ssize_t n = write(fd, pieces[i].iov_base, pieces[i].iov_len);
        if (n < 0) return written ? written : n;
        written += n;
        if ((size_t)n < pieces[i].iov_len) break;
    }
    return written;
}

// As between two file systems.
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t len, unsigned flags) {
    char path[PATH_MAX];
    if (!path_of(to, path)) return REAL(copy_file_range)(from, from_at, to, to_at, len, flags);
    errno = EXDEV;
    return -1;
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t len) {
    char path[PATH_MAX];
    if (!path_of(to, path)) return REAL(sendfile64)(to, from, at, len);
    errno = EINVAL;
    return -1;
}

static void name_all(const char *folder) {
    size_t n = strlen(folder);
    for (struct entry **at = &entries; *at;) {
        struct entry *e = *at;
        if (strncmp(e->name, folder, n) || e->name[n] != '/' || strchr(e->name + n + 1, '/')) {
            at = &e->next;
            continue;
        }
        if (REAL(rename)(e->real, e->name)) fail("cannot name", e->name);
        *at = e->next;
        free(e);
    }
}

// The kernel is not asked to sync: what has left this process outlives its end.
static int synced(int fd) {
    char path[PATH_MAX];
    struct stat s;
    if (!path_of(fd, path) || fstat(fd, &s)) return -1;
    pthread_mutex_lock(&lock);
    if (S_ISDIR(s.st_mode)) name_all(path);
    else end_of(fd, 1);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fsync(int fd) {
    return synced(fd) ? REAL(fsync)(fd) : 0;
}

int fdatasync(int fd) {
    return synced(fd) ? REAL(fdatasync)(fd) : 0;
}

int rename(const char *from, const char *to) {
    char one[PATH_MAX], two[PATH_MAX];
    const char *old = absolute(from, one), *new = absolute(to, two);
    if (!is_ours(new)) return REAL(rename)(from, to);
    pthread_mutex_lock(&lock);
    struct entry *there = named(new), *e = named(old);
    // It has another name already, which is not there yet: whoever finds it under the old one names it once more.
    for (struct entry *all = entries; all && !e; all = all->next) if (!strcmp(all->real, old)) e = all;
    if (there && there != e) strcat(there->name, ".replaced");
    if (e) snprintf(e->name, sizeof e->name, "%s", new);
    else enter(old, new);
    pthread_mutex_unlock(&lock);
    return 0;
}

// As on a file system that cannot exchange names.
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char one[PATH_MAX], two[PATH_MAX];
    if (!is_ours(absolute(from, one)) && !is_ours(absolute(to, two))) return REAL(renameat2)(from_folder, from, to_folder, to, flags);
    errno = EINVAL;
    return -1;
}

int unlink(const char *path) {
    char room[PATH_MAX];
    const char *name = absolute(path, room);
    if (!is_ours(name)) return REAL(unlink)(path);
    pthread_mutex_lock(&lock);
    int result = -1;
    for (struct entry **at = &entries; *at; at = &(*at)->next) {
        struct entry *e = *at;
        if (strcmp(e->name, name)) continue;
        result = REAL(unlink)(e->real);
        *at = e->next;
        free(e);
        break;
    }
    pthread_mutex_unlock(&lock);
    return result == 0 ? 0 : REAL(unlink)(path);
}
