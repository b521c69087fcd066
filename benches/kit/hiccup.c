/* hiccup - how long turns take in which nothing is done: what a machine does to a thread of its own accord.
 *   taskset -c CPU hiccup [-r RATE] [-w US] [-t SECONDS] [-m FILE]
 * Wakes RATE times a second (20,000), looks at the clock for US microseconds (15), and sleeps again: as an answering thread does, without
 * sockets. With a FILE, memory too: it is mapped on huge pages and touched, as an image is, and each turn begins with reading PLACES of
 * it for each wake-up that was due, BATCH at most, as queries are. Prints JSON: how many turns of a million took longer than 2.1 ms
 * (2^21 ns), in how many of them the thread ran for so long by the kernel's account, and the longest, with how long it ran in that.
 * Build: cc -O2 -o hiccup hiccup.c
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LONG_NS (1ll << 21)
#define PLACES 5
#define BATCH 64
#define HUGE (2ul << 20)
#define PAGE 4096

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* At a border of 2 MiB, all of it touched. */
static const volatile char *mapped(const char *path, size_t *size)
{
    struct stat about;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &about) || (*size = about.st_size) < PAGE) {
        perror(path);
        exit(2);
    }
    char *room = mmap(NULL, *size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        exit(2);
    room = (char *)(((uintptr_t)room + HUGE - 1) & ~(HUGE - 1));
    if (mmap(room, *size, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        exit(2);
    madvise(room, *size, MADV_HUGEPAGE);
    for (size_t at = 0; at < *size; at += PAGE)
        (void)*(volatile char *)(room + at);
    return room;
}

int main(int argc, char **argv)
{
    int option;
    double rate = 20000, work_us = 15, seconds = 60;
    const volatile char *memory = NULL;
    size_t size = 0;
    uint64_t drawn = 1;
    while ((option = getopt(argc, argv, "r:w:t:m:")) != -1)
        switch (option) {
        case 'r': rate = atof(optarg); break;
        case 'w': work_us = atof(optarg); break;
        case 't': seconds = atof(optarg); break;
        case 'm': memory = mapped(optarg, &size); break;
        default: return 2;
        }
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    int64_t every = 1e9 / rate, work = work_us * 1000, begin = now(CLOCK_MONOTONIC), end = begin + seconds * 1e9;
    int64_t turns = 0, over = 0, ran_over = 0, longest = 0, longest_ran = 0, wake = begin;
    for (;;) {
        wake += every;
        struct timespec until = {wake / 1000000000, wake % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
            ;
        int64_t from = now(CLOCK_MONOTONIC), ran = now(CLOCK_THREAD_CPUTIME_ID), to;
        if (from > end)
            break;
        int64_t due = 1 + (from - wake) / every;
        if (due > BATCH)
            due = BATCH;
        for (int64_t left = memory ? PLACES * due : 0; left > 0; left--) {
            drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
            (void)memory[(drawn >> 32) * size >> 32];
        }
        while ((to = now(CLOCK_MONOTONIC)) - from < work)
            ;
        ran = now(CLOCK_THREAD_CPUTIME_ID) - ran;
        turns++;
        over += to - from >= LONG_NS;
        ran_over += to - from >= LONG_NS && ran >= LONG_NS;
        if (to - from > longest)
            longest = to - from, longest_ran = ran;
        wake += (due - 1) * every;  /* what is overdue is one turn, as what waits at a socket is; what no batch holds is the next */
    }
    double millions = turns / 1e6;
    printf("{\"turns\": %lld, \"turns_over_2ms_a_million\": {\"turn\": %.2f, \"ran\": %.2f}, \"longest_us\": %.1f, \"longest_ran_us\": %.1f}\n",
           (long long)turns, over / millions, ran_over / millions, longest / 1e3, longest_ran / 1e3);
    return 0;
}
