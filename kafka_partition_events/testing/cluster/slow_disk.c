/* Preloaded into brokers: a write to a file takes as many ms longer as the file $KPE_SLOW_DISK says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void hold(int file) {
    const char *where = getenv("KPE_SLOW_DISK");
    struct stat what;
    FILE *said;
    long ms = 0;
    if (where == NULL || fstat(file, &what) != 0 || !S_ISREG(what.st_mode)) return;
    if ((said = fopen(where, "r")) == NULL) return;
    if (fscanf(said, "%ld", &ms) != 1) ms = 0;
    fclose(said);
    if (ms > 0) usleep(ms * 1000);
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
