/* How two members of a mesh make sure of each other, before a frame passes between them. Sans-I/O:
 * bytes in, bytes out; one connection's.
 *
 *   connects                        accepts
 *   hello ------------------------>          checks chain, epoch, members
 *         <------------------------ hello, proof
 *   checks both
 *   proof ------------------------>          checks it
 *
 *   hello = "LHMESH", u16 version, SHA-256 of the chain's name, u32 epoch, u32 members, u32 own
 *           index, u32 the other's index, 32 random bytes
 *   proof = HMAC-SHA-256 under the secret of the assignment, of 'C' or 'A' (who makes it) and both
 *           hellos
 *
 * So a stranger on the port is refused, and what was overheard of one handshake is of no use in
 * another. Bytes after it are neither encrypted nor signed, like the h2c of a site: whoever can
 * change packets inside a site is inside it. TLS between members is not done.
 *
 * Thread: the owner's. */
#pragma once

#include "common/base/digest.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_MESH_SECRET_BYTES 32u
#define LH_MESH_HELLO_BYTES  88u
#define LH_MESH_NONCE_BYTES  32u

/* Who takes part in a mesh, and which of them this is. */
typedef struct lh_mesh_identity {
    const char *chain;
    uint32_t epoch;
    uint32_t members, own;
    uint8_t secret[LH_MESH_SECRET_BYTES];
} lh_mesh_identity;

typedef struct lh_mesh_handshake {
    const lh_mesh_identity *identity;
    bool connects;
    bool is_done;  /* once `out` has gone, too */
    uint32_t peer; /* the other's index; one that accepts has it from the hello */
    uint8_t own_hello[LH_MESH_HELLO_BYTES], peer_hello[LH_MESH_HELLO_BYTES];
    uint8_t nonce[LH_MESH_NONCE_BYTES];
    /* The next message: its owner fills `in` up to in_wanted bytes, then says so. Not one byte
     * more, which would be of a frame. */
    uint8_t in[LH_MESH_HELLO_BYTES + LH_SHA256_BYTES];
    size_t in_length, in_wanted;
    /* To be sent, from out_sent on. */
    uint8_t out[LH_MESH_HELLO_BYTES + LH_SHA256_BYTES];
    size_t out_length, out_sent;
} lh_mesh_handshake;

/* To member `peer`, with whom a connection was opened. The identity outlives the handshake; the
 * nonce is of nobody else. LH_ERR_NO_MEMORY. */
lh_status lh_mesh_handshake_connect(lh_mesh_handshake *handshake, const lh_mesh_identity *identity,
                                    uint32_t peer, const uint8_t nonce[LH_MESH_NONCE_BYTES],
                                    lh_error *error);
/* With whoever has connected. */
void lh_mesh_handshake_accept(lh_mesh_handshake *handshake, const lh_mesh_identity *identity,
                              const uint8_t nonce[LH_MESH_NONCE_BYTES]);

/* in_length has come to in_wanted, which is 0 afterwards where nothing more is awaited. What is to
 * be sent in answer is appended to `out`. After an error nothing is sent any more. LH_ERR_PROTOCOL:
 * no hello of a mesh, or of another member than it may be; LH_ERR_UNSUPPORTED: of another version;
 * LH_ERR_INVALID: of another chain; LH_ERR_STALE: of another epoch; LH_ERR_CORRUPT: the other does
 * not have the secret; LH_ERR_NO_MEMORY. */
lh_status lh_mesh_handshake_advance(lh_mesh_handshake *handshake, lh_error *error);
