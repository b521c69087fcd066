/* tcpecho - the ceiling over TCP: a server that flips the QR bit of each DNS message and sends it back.
 * One thread, epoll, messages framed by two length octets (RFC 1035 section 4.2.2). All messages that one read
 * brought are answered with one write, as a pipelining server would (RFC 7766 section 6.2.1.1).
 *   tcpecho [-p PORT] [-z SIZE]
 *   -z     sends answers of SIZE octets (what follows the query is whatever the buffer holds)
 * A connection whose peer does not read is closed: this program measures, it does not serve.
 * Build: cc -O2 -o tcpecho tcpecho.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAXFD 1024
#define INBUF 65536
#define OUTBUF (1 << 20)

struct conn {
    uint8_t in[INBUF + 2];
    size_t have;
};
static struct conn *conns[MAXFD];
static uint8_t out[OUTBUF];

static void drop(int fd)
{
    close(fd);
    free(conns[fd]);
    conns[fd] = NULL;
}

/* answers every whole message in the buffer; 0 when the connection is to end */
static int answer(int fd, struct conn *c, size_t size)
{
    size_t at = 0, n_out = 0;
    while (c->have - at >= 2) {
        size_t n = (size_t)c->in[at] << 8 | c->in[at + 1];
        if (n < 12)
            return 0;
        if (c->have - at - 2 < n)
            break;
        size_t reply = size ? size : n;
        if (n_out + 2 + reply > OUTBUF)
            return 0;
        out[n_out] = (uint8_t)(reply >> 8);
        out[n_out + 1] = (uint8_t)reply;
        memcpy(out + n_out + 2, c->in + at + 2, n < reply ? n : reply);
        out[n_out + 4] |= 0x80;
        n_out += 2 + reply;
        at += 2 + n;
    }
    memmove(c->in, c->in + at, c->have - at);
    c->have -= at;
    return !n_out || send(fd, out, n_out, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n_out;
}

int main(int argc, char **argv)
{
    int port = 5300, o, one = 1, buf = 4 << 20;
    size_t size = 0;
    while ((o = getopt(argc, argv, "p:z:")) != -1)
        switch (o) {
        case 'p': port = atoi(optarg); break;
        case 'z': size = (size_t)atoi(optarg); break;
        default: fputs("tcpecho [-p PORT] [-z SIZE]\n", stderr); return 2;
        }
    if (size && (size < 12 || size > 65535))
        return 2;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), ep = epoll_create1(0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &buf, sizeof buf);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&a, sizeof a) || listen(listener, 512)) {
        perror("bind");
        return 1;
    }
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener}, evs[64];
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        int n = epoll_wait(ep, evs, 64, -1);
        for (int i = 0; i < n; i++) {
            int fd = evs[i].data.fd;
            if (fd == listener) {
                int c = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                if (c < 0)
                    continue;
                if (c >= MAXFD || !(conns[c] = calloc(1, sizeof **conns))) {
                    close(c);
                    continue;
                }
                setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                ev.data.fd = c;
                epoll_ctl(ep, EPOLL_CTL_ADD, c, &ev);
                continue;
            }
            struct conn *c = conns[fd];
            ssize_t r = recv(fd, c->in + c->have, sizeof c->in - c->have, 0);
            if (r < 0 && errno == EAGAIN)
                continue;
            if (r > 0)
                c->have += (size_t)r;
            if (r <= 0 || !answer(fd, c, size))
                drop(fd);
        }
    }
}
