/* The device, and what a network card does with a burst: segmentation. */
#include "link/tun_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define VIRTIO_BYTES sizeof(struct virtio_net_hdr)
#define IP_BYTES_MIN 20u
#define TCP_FIN_PSH  0x09u
#define TCP_CWR      0x80u

static int enter_namespace(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", name);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    int failed = space < 0 || setns(space, CLONE_NEWNET) != 0;
    if (space >= 0)
        close(space);
    return failed ? -1 : 0;
}

/* The device belongs to the namespace in which /dev/net/tun is opened. */
static int create_device(const char *device, unsigned offload) {
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", device);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 &&
        (ioctl(fd, TUNSETIFF, &request) != 0 || ioctl(fd, TUNSETOFFLOAD, offload) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int lh_tun_open(const char *name, const char *device) {
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (home < 0)
        return -1;
    int fd = enter_namespace(name) == 0 ? create_device(device, TUN_F_CSUM | TUN_F_TSO4) : -1;
    int failure = errno;
    if (setns(home, CLONE_NEWNET) != 0)
        abort(); /* nothing that follows would be where it should */
    close(home);
    errno = failure;
    return fd;
}

int lh_tun_open_here(const char *device) {
    return create_device(device, 0);
}

ptrdiff_t lh_tun_read(int device, uint8_t bytes[LH_TUN_PACKET_BYTES_MAX]) {
    ssize_t length = read(device, bytes, LH_TUN_PACKET_BYTES_MAX);
    if (length >= 0)
        return length;
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

bool lh_tun_write(int device, const lh_packet *p) {
    return write(device, p->bytes, p->length) == (ssize_t)p->length;
}

const uint8_t *lh_tun_ip_packet(const lh_packet *p, size_t *length) {
    *length = p->length - VIRTIO_BYTES;
    return p->bytes + VIRTIO_BYTES;
}

uint32_t lh_tun_destination(const uint8_t *bytes, size_t length) {
    const uint8_t *ip = bytes + VIRTIO_BYTES;
    if (length < VIRTIO_BYTES + IP_BYTES_MIN || ip[0] >> 4 != 4)
        return 0;
    return (uint32_t)ip[16] << 24 | (uint32_t)ip[17] << 16 | (uint32_t)ip[18] << 8 | ip[19];
}

/* ---- Segmentation ---- */

static uint32_t read_u16(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

static void write_u16(uint8_t *bytes, uint32_t value) {
    bytes[0] = (uint8_t)(value >> 8);
    bytes[1] = (uint8_t)value;
}

/* Ones' complement sum of 16-bit words; `bytes` has an even number. */
static uint32_t sum_words(const uint8_t *bytes, size_t length, uint32_t sum) {
    for (size_t i = 0; i < length; i += 2)
        sum += read_u16(bytes + i);
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

typedef struct burst {
    const uint8_t *bytes;
    uint32_t ip_bytes, head_bytes; /* of the IP header; of the IP and the TCP header */
    uint32_t payload_bytes, segment_bytes;
} burst;

static lh_packet *packet_of(const uint8_t *bytes, size_t length, size_t capacity) {
    lh_packet *p = malloc(sizeof *p + capacity);
    if (p) {
        memcpy(p->bytes, bytes, length);
        p->length = (uint32_t)capacity;
        p->wire_bytes = (uint32_t)(capacity - VIRTIO_BYTES);
    }
    return p;
}

/* The payload [from, from + count) as a packet of its own: headers as segmentation makes them, the
 * TCP checksum left to whoever needs it. */
static lh_packet *piece_of(const burst *b, uint32_t from, uint32_t count) {
    size_t head = VIRTIO_BYTES + b->head_bytes;
    lh_packet *p = packet_of(b->bytes, head, head + count);
    if (!p)
        return NULL;
    memcpy(p->bytes + head, b->bytes + head + from, count);
    uint8_t *ip = p->bytes + VIRTIO_BYTES, *tcp = ip + b->ip_bytes;
    uint32_t segments = (count + b->segment_bytes - 1) / b->segment_bytes;
    p->wire_bytes = count + segments * b->head_bytes;

    write_u16(ip + 2, b->head_bytes + count);
    write_u16(ip + 4, read_u16(ip + 4) + from / b->segment_bytes);
    write_u16(ip + 10, 0);
    write_u16(ip + 10, ~sum_words(ip, b->ip_bytes, 0));
    uint32_t number = (read_u16(tcp + 4) << 16 | read_u16(tcp + 6)) + from;
    write_u16(tcp + 4, number >> 16);
    write_u16(tcp + 6, number);
    if (from > 0)
        tcp[13] &= (uint8_t)~TCP_CWR;
    if (from + count < b->payload_bytes)
        tcp[13] &= (uint8_t)~TCP_FIN_PSH;
    /* pseudo header */
    write_u16(tcp + 16, sum_words(ip + 12, 8, 6 + b->head_bytes - b->ip_bytes + count));

    struct virtio_net_hdr virtio;
    memcpy(&virtio, p->bytes, sizeof virtio);
    virtio.hdr_len = (__virtio16)b->head_bytes;
    if (segments == 1) {
        virtio.gso_type = VIRTIO_NET_HDR_GSO_NONE;
        virtio.gso_size = 0;
    }
    memcpy(p->bytes, &virtio, sizeof virtio);
    return p;
}

/* False: it is a single packet. */
static bool burst_read(const uint8_t *bytes, size_t length, burst *b) {
    struct virtio_net_hdr virtio;
    memcpy(&virtio, bytes, sizeof virtio);
    if ((virtio.gso_type & ~VIRTIO_NET_HDR_GSO_ECN) != VIRTIO_NET_HDR_GSO_TCPV4 ||
        virtio.gso_size == 0) {
        return false;
    }
    const uint8_t *ip = bytes + VIRTIO_BYTES;
    size_t available = length - VIRTIO_BYTES;
    *b = (burst){.bytes = bytes, .ip_bytes = (ip[0] & 15u) * 4, .segment_bytes = virtio.gso_size};
    if (b->ip_bytes < IP_BYTES_MIN || available < b->ip_bytes + 20)
        return false;
    b->head_bytes = b->ip_bytes + (uint32_t)(ip[b->ip_bytes + 12] >> 4) * 4;
    if (b->head_bytes < b->ip_bytes + 20 || available <= b->head_bytes)
        return false;
    b->payload_bytes = (uint32_t)(available - b->head_bytes);
    return true;
}

bool lh_tun_cut(const uint8_t *bytes, size_t length, uint32_t grain,
                void (*push)(void *context, lh_packet *p), void *context) {
    burst b;
    if (!burst_read(bytes, length, &b)) {
        lh_packet *p = packet_of(bytes, length, length);
        if (p)
            push(context, p);
        return p;
    }
    uint32_t segments = grain / (b.segment_bytes + b.head_bytes);
    uint32_t step = (segments > 0 ? segments : 1) * b.segment_bytes;
    for (uint32_t from = 0; from < b.payload_bytes; from += step) {
        uint32_t left = b.payload_bytes - from;
        lh_packet *p = piece_of(&b, from, left < step ? left : step);
        if (!p)
            return false;
        push(context, p);
    }
    return true;
}

/* ---- Corruption ---- */

/* Ones' complement arithmetic: what the sum of 16-bit words loses and gains by the change (RFC
 * 1624). */
static void correct_checksum(uint8_t *checksum, uint32_t before, uint32_t after) {
    uint32_t sum = (~read_u16(checksum) & 0xffff) + (~before & 0xffff) + after;
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    write_u16(checksum, ~sum);
}

bool lh_tun_flip_bit(lh_packet *p, uint64_t dice) {
    uint8_t *ip = p->bytes + VIRTIO_BYTES;
    uint32_t available = p->length - (uint32_t)VIRTIO_BYTES, ip_bytes = (ip[0] & 15u) * 4;
    if (available < ip_bytes + 20 || ip_bytes < IP_BYTES_MIN || ip[9] != 6)
        return false;
    uint8_t *tcp = ip + ip_bytes;
    uint32_t tcp_bytes = (uint32_t)(tcp[12] >> 4) * 4, end = available - ip_bytes;
    if (tcp_bytes < 20 || end <= tcp_bytes)
        return false;
    uint32_t at = tcp_bytes + (uint32_t)(dice / 8 % (end - tcp_bytes));
    uint32_t before = (uint32_t)tcp[at] << (at % 2 == 0 ? 8 : 0);
    tcp[at] ^= (uint8_t)(1u << dice % 8);
    uint32_t after = (uint32_t)tcp[at] << (at % 2 == 0 ? 8 : 0);

    struct virtio_net_hdr virtio;
    memcpy(&virtio, p->bytes, sizeof virtio);
    if ((virtio.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) == 0)
        correct_checksum(tcp + 16, before, after); /* else whoever needs it makes it */
    return true;
}
