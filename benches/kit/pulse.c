/* pulse - tells when a processor stood still: when the clock that interrupts it did not.
 *   pulse CPU [PERIOD_US [LEAST_US]]
 * Has the kernel's clock interrupt that CPU each PERIOD_US microseconds (250), whatever runs on it, and prints a line for each time that
 * the next interrupt was later than LEAST_US (1000) after the one before: the moment of the late one in seconds since 1970, and how long
 * before it there was none, less one period, in microseconds. A program in user space cannot bring that about, nor one in a system call:
 * either the host did not run that CPU, or the kernel kept interrupts from it. Ends when its input does. Wants root or CAP_PERFMON, and
 * another CPU for itself: run it there.
 * Build: cc -O2 -o pulse pulse.c
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGES 64 /* of samples: 16 octets each, so four seconds at 4,000 a second */
#define LOOK_MS 100

struct sample {
    struct perf_event_header header;
    uint64_t time;
};

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "pulse CPU [PERIOD_US [LEAST_US]]\n");
        return 2;
    }
    uint64_t period = (argc > 2 ? strtoull(argv[2], NULL, 10) : 250) * 1000, least = (argc > 3 ? strtoull(argv[3], NULL, 10) : 1000) * 1000;
    struct perf_event_attr about = {
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .size = sizeof about,
        .sample_period = period,
        .sample_type = PERF_SAMPLE_TIME,
        .use_clockid = 1,
        .clockid = CLOCK_REALTIME,
    };
    int event = syscall(SYS_perf_event_open, &about, -1, atoi(argv[1]), -1, PERF_FLAG_FD_CLOEXEC);
    if (event < 0) {
        perror("perf_event_open");
        return 1;
    }
    size_t page = sysconf(_SC_PAGESIZE), size = PAGES * page;
    struct perf_event_mmap_page *room = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
    if (room == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    const char *samples = (const char *)room + page;
    uint64_t at = 0, last = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (int is_over = 0; !is_over;) {
        is_over = poll(&input, 1, LOOK_MS) > 0 && read(0, (char[64]){0}, 64) <= 0;
        uint64_t head = __atomic_load_n(&room->data_head, __ATOMIC_ACQUIRE);
        while (at < head) {
            /* Records are multiples of eight octets, and so may be cut where the room begins again. */
            struct sample sample;
            for (size_t part = 0; part < sizeof sample; part += 8)
                memcpy((char *)&sample + part, samples + (at + part) % size, 8);
            at += sample.header.size;
            /* The kernel takes so many between two ticks of its own, and a CPU that is idle may have none for long: what was then is not known. */
            if (sample.header.type != PERF_RECORD_SAMPLE) {
                last = 0;
                continue;
            }
            if (last && sample.time > last + least)
                printf("%.6f %.1f\n", sample.time / 1e9, (sample.time - last - period) / 1e3);
            last = sample.time;
        }
        __atomic_store_n(&room->data_tail, at, __ATOMIC_RELEASE);
        fflush(stdout);
    }
    return 0;
}
