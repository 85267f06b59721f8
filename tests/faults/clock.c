/* An adjustable wall clock for one process and its descendants: LD_PRELOAD this library, and name in
   BABELRAY_TEST_CLOCK a file of eight bytes, the offset of the clock in nanoseconds. As with a real adjustment, only
   the wall clock is offset: waits until an absolute wall time take as long as before, and the monotonic clock is not
   changed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile long long *off;
static long (*real_syscall)(long, ...);
static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_clock_wait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
static int (*real_semaphore)(sem_t *, const struct timespec *);

__attribute__((constructor)) static void start(void) {
    if (real_syscall)
        return;
    real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2"); /* the default symbol is an older version */
    if (!real_wait)
        real_wait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    real_clock_wait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    real_semaphore = dlsym(RTLD_NEXT, "sem_timedwait");
    const char *name = getenv("BABELRAY_TEST_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *there = mmap(NULL, sizeof *off, PROT_READ, MAP_SHARED, file, 0);
        off = there == MAP_FAILED ? NULL : there;
        close(file);
    }
    real_syscall = dlsym(RTLD_NEXT, "syscall");
}

static struct timespec moved(struct timespec moment, long long by) {
    long long all = moment.tv_sec * SECOND + moment.tv_nsec + by;
    return (struct timespec){all / SECOND, all % SECOND};
}

/* Wall times are after 2001; the monotonic clock has a smaller value. */
static struct timespec real(const struct timespec *moment) {
    return off && moment->tv_sec > SECOND ? moved(*moment, -*off) : *moment;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    start();
    int failed = real_gettime(clock, now);
    if (!failed && off && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *now = moved(*now, *off);
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    *now = (struct timeval){found.tv_sec, found.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *now) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now)
        *now = found.tv_sec;
    return found.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    start();
    struct timespec moment = real(until);
    return real_wait(condition, mutex, &moment);
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    start();
    struct timespec moment = real(until);
    return real_clock_wait(condition, mutex, clock, &moment);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    start();
    struct timespec moment = real(until);
    return real_semaphore(semaphore, &moment);
}

/* Some libraries call the kernel directly. */
long syscall(long number, ...) {
    start();
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_clock_gettime)
        return clock_gettime((clockid_t)a, (struct timespec *)b);
    if (number == SYS_futex && (b & FUTEX_CLOCK_REALTIME) && d) {
        struct timespec moment = real((const struct timespec *)d);
        return real_syscall(number, a, b, c, &moment, e, f);
    }
    return real_syscall(number, a, b, c, d, e, f);
}
