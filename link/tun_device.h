/* A TUN device in a network namespace: a site's end of the emulated network. The kernel hands over
 * bursts of TCP as one packet, as it does to a network card, which saves most of the cost; the
 * emulator cuts them into pieces of the line's grain. Each packet begins with a struct
 * virtio_net_hdr. */
#pragma once

#include "link/line.h"

#include <stddef.h>
#include <stdint.h>

#define LH_TUN_PACKET_BYTES_MAX (16 + 65536)

/* Creates the device `device` in the namespace /run/netns/{name}. The descriptor, which does not
 * block; -1 with errno. Thread: the only one. */
int lh_tun_open(const char *name, const char *device);
/* Creates it in the caller's own namespace, for single packets with their checksums, which any
 * socket may send. The same. */
int lh_tun_open_here(const char *device);
/* One packet as the kernel gave it. Its length; 0: none waits. -1: the device is gone. */
ptrdiff_t lh_tun_read(int device, uint8_t bytes[LH_TUN_PACKET_BYTES_MAX]);
/* False: the kernel did not take it. */
bool lh_tun_write(int device, const lh_packet *p);

/* The packet itself, without what stands before it. */
const uint8_t *lh_tun_ip_packet(const lh_packet *p, size_t *length);
/* The IPv4 address that it goes to, as a number; 0: it is no IPv4 packet. */
uint32_t lh_tun_destination(const uint8_t *bytes, size_t length);
/* Cuts what was read into packets of at most `grain` bytes, but at least one of the TCP segments
 * that it is made of, and calls push for each in order. False: out of memory. */
bool lh_tun_cut(const uint8_t *bytes, size_t length, uint32_t grain,
                void (*push)(void *context, lh_packet *p), void *context);

/* Flips one bit of what TCP carries in the packet, in such a way that the checksums still hold, as
 * memory of a bad router does it: bit `dice` of the payload, counted around. False: it carries
 * nothing. */
bool lh_tun_flip_bit(lh_packet *p, uint64_t dice);
