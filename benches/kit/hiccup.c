/* hiccup - how long turns take in which nothing is done: what a machine does to a thread of its own accord.
 *   taskset -c CPU hiccup [-r RATE] [-w US] [-t SECONDS]
 * Wakes RATE times a second (20,000), looks at the clock for US microseconds (15), and sleeps again: as an answering thread does, without
 * sockets and memory. Prints JSON: how many turns of a million took longer than 2.1 ms (2^21 ns), in how many of them the thread ran for
 * so long by the kernel's account, and the longest, with how long it ran in that.
 * Build: cc -O2 -o hiccup hiccup.c
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define LONG_NS (1ll << 21)

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(int argc, char **argv)
{
    int option;
    double rate = 20000, work_us = 15, seconds = 60;
    while ((option = getopt(argc, argv, "r:w:t:")) != -1)
        switch (option) {
        case 'r': rate = atof(optarg); break;
        case 'w': work_us = atof(optarg); break;
        case 't': seconds = atof(optarg); break;
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
        while ((to = now(CLOCK_MONOTONIC)) - from < work)
            ;
        ran = now(CLOCK_THREAD_CPUTIME_ID) - ran;
        turns++;
        over += to - from >= LONG_NS;
        ran_over += to - from >= LONG_NS && ran >= LONG_NS;
        if (to - from > longest)
            longest = to - from, longest_ran = ran;
        if (wake < to)  /* what is overdue is one turn, as what waits at a socket is */
            wake = to;
    }
    double millions = turns / 1e6;
    printf("{\"turns\": %lld, \"turns_over_2ms_a_million\": {\"turn\": %.2f, \"ran\": %.2f}, \"longest_us\": %.1f, \"longest_ran_us\": %.1f}\n",
           (long long)turns, over / millions, ran_over / millions, longest / 1e3, longest_ran / 1e3);
    return 0;
}
