/* Preloaded into brokers: a write to a file takes DISK_MS longer while $BENCH_SLOW_DISK/PID exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void hold(int file) {
    const char *where = getenv("BENCH_SLOW_DISK");
    struct stat what;
    char flag[4096];
    if (where == NULL || fstat(file, &what) != 0 || !S_ISREG(what.st_mode)) return;
    snprintf(flag, sizeof flag, "%s/%d", where, (int)getpid());
    if (access(flag, F_OK) == 0) usleep(DISK_MS * 1000);
}

#define SLOWED(name, more, given)                                         \
    ssize_t name(int file, more) {                                        \
        static ssize_t (*real)(int, more);                                \
        if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, #name);      \
        hold(file);                                                       \
        return real given;                                                \
    }
#define BYTES const void *bytes, size_t size
#define VECTOR const struct iovec *parts, int count
#define COMMA ,

SLOWED(write, BYTES, (file, bytes, size))
SLOWED(writev, VECTOR, (file, parts, count))
SLOWED(pwrite, BYTES COMMA off_t at, (file, bytes, size, at))
SLOWED(pwrite64, BYTES COMMA off64_t at, (file, bytes, size, at))
