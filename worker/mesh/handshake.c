/* Hellos and proofs. */
#include "worker/mesh/handshake.h"

#include "common/base/little_endian.h"

#include <assert.h>
#include <string.h>

static const char magic[] = {'L', 'H', 'M', 'E', 'S', 'H'};
enum { VERSION = 1 };

typedef struct hello {
    char magic[sizeof magic];
    uint16_t version;
    uint8_t chain[LH_SHA256_BYTES];
    uint32_t epoch, members, own, other;
} hello;

static hello decode(const uint8_t bytes[LH_MESH_HELLO_BYTES]) {
    lh_byte_reader reader = {.bytes = bytes, .length = LH_MESH_HELLO_BYTES};
    hello h;
    lh_get_bytes(&reader, h.magic, sizeof h.magic);
    lh_get_bytes(&reader, &h.version, sizeof h.version);
    lh_get_bytes(&reader, h.chain, sizeof h.chain);
    h.epoch = lh_get_u32(&reader);
    h.members = lh_get_u32(&reader);
    h.own = lh_get_u32(&reader);
    h.other = lh_get_u32(&reader);
    assert(!reader.failed);
    return h;
}

/* LH_ERR_NO_MEMORY: the digest. */
static lh_status write_own_hello(lh_mesh_handshake *handshake, lh_error *error) {
    const lh_mesh_identity *identity = handshake->identity;
    const uint16_t version = VERSION;
    uint8_t chain[LH_SHA256_BYTES];
    if (lh_sha256_digest(identity->chain, strlen(identity->chain), chain) != LH_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "mesh: out of memory");
    lh_byte_writer writer = {.bytes = handshake->own_hello, .capacity = LH_MESH_HELLO_BYTES};
    lh_put_bytes(&writer, magic, sizeof magic);
    lh_put_bytes(&writer, &version, sizeof version);
    lh_put_bytes(&writer, chain, sizeof chain);
    lh_put_u32(&writer, identity->epoch);
    lh_put_u32(&writer, identity->members);
    lh_put_u32(&writer, identity->own);
    lh_put_u32(&writer, handshake->peer);
    lh_put_bytes(&writer, handshake->nonce, LH_MESH_NONCE_BYTES);
    assert(!writer.failed && writer.length == LH_MESH_HELLO_BYTES);
    return LH_OK;
}

static void send(lh_mesh_handshake *handshake, const uint8_t *bytes, size_t length) {
    assert(length <= sizeof handshake->out - handshake->out_length);
    memcpy(handshake->out + handshake->out_length, bytes, length);
    handshake->out_length += length;
}

static void await(lh_mesh_handshake *handshake, size_t length) {
    assert(length <= sizeof handshake->in);
    handshake->in_length = 0;
    handshake->in_wanted = length;
}

/* Of the side that connects or of the one that accepts. */
static lh_status prove(const lh_mesh_handshake *handshake, bool connects,
                       uint8_t proof[LH_SHA256_BYTES], lh_error *error) {
    const uint8_t *own = handshake->own_hello, *peer = handshake->peer_hello;
    uint8_t message[1 + 2 * LH_MESH_HELLO_BYTES];
    message[0] = connects ? 'C' : 'A';
    memcpy(message + 1, handshake->connects ? own : peer, LH_MESH_HELLO_BYTES);
    memcpy(message + 1 + LH_MESH_HELLO_BYTES, handshake->connects ? peer : own,
           LH_MESH_HELLO_BYTES);
    if (lh_sha256_keyed(handshake->identity->secret, LH_MESH_SECRET_BYTES, message, sizeof message,
                        proof) != LH_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "mesh: out of memory");
    return LH_OK;
}

static lh_status send_proof(lh_mesh_handshake *handshake, lh_error *error) {
    uint8_t proof[LH_SHA256_BYTES];
    lh_status status = prove(handshake, handshake->connects, proof, error);
    if (status == LH_OK)
        send(handshake, proof, sizeof proof);
    return status;
}

static lh_status check_proof(const lh_mesh_handshake *handshake,
                             const uint8_t came[LH_SHA256_BYTES], lh_error *error) {
    uint8_t proof[LH_SHA256_BYTES];
    lh_status status = prove(handshake, !handshake->connects, proof, error);
    if (status != LH_OK)
        return status;
    return lh_sha256_equal(proof, came)
               ? LH_OK
               : lh_fail(error, LH_ERR_CORRUPT, "it does not have the mesh's secret");
}

/* Members with a lower index accept. */
static bool may_be(const lh_mesh_handshake *handshake, const hello *h) {
    const lh_mesh_identity *identity = handshake->identity;
    if (h->members != identity->members || h->other != identity->own)
        return false;
    return handshake->connects ? h->own == handshake->peer
                               : h->own > identity->own && h->own < identity->members;
}

static lh_status check_hello(const lh_mesh_handshake *handshake, lh_error *error) {
    const lh_mesh_identity *identity = handshake->identity;
    const hello h = decode(handshake->peer_hello);
    uint8_t chain[LH_SHA256_BYTES];
    if (lh_sha256_digest(identity->chain, strlen(identity->chain), chain) != LH_OK)
        return lh_fail(error, LH_ERR_NO_MEMORY, "mesh: out of memory");
    if (memcmp(h.magic, magic, sizeof magic) != 0)
        return lh_fail(error, LH_ERR_PROTOCOL, "it is no member of a mesh: other bytes came");
    if (h.version != VERSION)
        return lh_fail(error, LH_ERR_UNSUPPORTED, "version %u of the mesh, where %u is wanted",
                       h.version, VERSION);
    if (memcmp(h.chain, chain, sizeof chain) != 0)
        return lh_fail(error, LH_ERR_INVALID, "it is of another chain");
    if (h.epoch != identity->epoch)
        return lh_fail(error, LH_ERR_STALE, "it is of epoch %u, where %u is wanted", h.epoch,
                       identity->epoch);
    if (!may_be(handshake, &h))
        return lh_fail(error, LH_ERR_PROTOCOL,
                       "it says that it is member %u of %u and wants member %u", h.own, h.members,
                       h.other);
    return LH_OK;
}

static void begin(lh_mesh_handshake *handshake, const lh_mesh_identity *identity,
                  const uint8_t nonce[LH_MESH_NONCE_BYTES]) {
    *handshake = (lh_mesh_handshake){.identity = identity};
    memcpy(handshake->nonce, nonce, LH_MESH_NONCE_BYTES);
}

lh_status lh_mesh_handshake_connect(lh_mesh_handshake *handshake, const lh_mesh_identity *identity,
                                    uint32_t peer, const uint8_t nonce[LH_MESH_NONCE_BYTES],
                                    lh_error *error) {
    begin(handshake, identity, nonce);
    handshake->connects = true;
    handshake->peer = peer;
    lh_status status = write_own_hello(handshake, error);
    if (status != LH_OK)
        return status;
    send(handshake, handshake->own_hello, LH_MESH_HELLO_BYTES);
    await(handshake, LH_MESH_HELLO_BYTES + LH_SHA256_BYTES);
    return LH_OK;
}

void lh_mesh_handshake_accept(lh_mesh_handshake *handshake, const lh_mesh_identity *identity,
                              const uint8_t nonce[LH_MESH_NONCE_BYTES]) {
    begin(handshake, identity, nonce);
    await(handshake, LH_MESH_HELLO_BYTES);
}

/* One that connects: hello and proof have come. */
static lh_status answer_proof(lh_mesh_handshake *handshake, lh_error *error) {
    lh_status status = check_hello(handshake, error);
    if (status == LH_OK)
        status = check_proof(handshake, handshake->in + LH_MESH_HELLO_BYTES, error);
    if (status == LH_OK)
        status = send_proof(handshake, error);
    if (status == LH_OK)
        handshake->is_done = true;
    return status;
}

/* One that accepts: a hello has come. */
static lh_status answer_hello(lh_mesh_handshake *handshake, lh_error *error) {
    lh_status status = check_hello(handshake, error);
    if (status != LH_OK)
        return status;
    handshake->peer = decode(handshake->peer_hello).own;
    status = write_own_hello(handshake, error);
    if (status != LH_OK)
        return status;
    send(handshake, handshake->own_hello, LH_MESH_HELLO_BYTES);
    status = send_proof(handshake, error);
    if (status == LH_OK)
        await(handshake, LH_SHA256_BYTES);
    return status;
}

lh_status lh_mesh_handshake_advance(lh_mesh_handshake *handshake, lh_error *error) {
    assert(!handshake->is_done && handshake->in_length == handshake->in_wanted);
    if (handshake->in_wanted == LH_SHA256_BYTES) {
        lh_status status = check_proof(handshake, handshake->in, error);
        handshake->is_done = status == LH_OK;
        handshake->in_wanted = 0;
        return status;
    }
    memcpy(handshake->peer_hello, handshake->in, LH_MESH_HELLO_BYTES);
    handshake->in_wanted = 0;
    return handshake->connects ? answer_proof(handshake, error) : answer_hello(handshake, error);
}
