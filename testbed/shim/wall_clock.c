/* A wall clock that is wrong by as much as a file says. Preloaded into a program, it moves CLOCK_REALTIME by the
 * nanoseconds in the first eight bytes of the file that DISTLOCK_WALL_CLOCK names, as they stand at each reading, and
 * leaves all other clocks alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile int64_t none;
static volatile int64_t *offset = &none;

__attribute__((constructor)) static void find_offset(void) {
    const char *file = getenv("DISTLOCK_WALL_CLOCK");
    int opened = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (opened < 0)
        return;
    void *mapped = mmap(0, 8, PROT_READ, MAP_SHARED, opened, 0);
    if (mapped != MAP_FAILED)
        offset = mapped;
    close(opened);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int result = syscall(SYS_clock_gettime, clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t moved = at->tv_sec * SECOND + at->tv_nsec + *offset;
        at->tv_sec = moved / SECOND;
        at->tv_nsec = moved % SECOND;
    }
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
