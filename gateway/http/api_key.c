/* SHA-256 on both sides, then every byte is looked at. */
#include "gateway/http/api_key.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

lh_status lh_api_key_init(lh_api_key *key, const char *text) {
    *key = (lh_api_key){.required = text && *text};
    return key->required ? lh_sha256_digest(text, strlen(text), key->digest) : LH_OK;
}

static bool is_key(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return length > 0 && length < LH_API_KEY_BYTES;
}

static lh_status read_key(FILE *file, const char *path, char *text, lh_error *error) {
    struct stat info;
    char line[LH_API_KEY_BYTES + 2]; /* one more than a key and its end of line, to see what is too long */
    if (fstat(fileno(file), &info) != 0)
        return lh_fail(error, LH_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    if (info.st_mode & (S_IRWXG | S_IRWXO))
        return lh_fail(error, LH_ERR_INVALID,
                       "%s holds a key, and others than its owner may use it: chmod 600 %s", path, path);
    size_t length = fread(line, 1, sizeof line, file);
    bool is_whole = !ferror(file);
    if (length > 0 && line[length - 1] == '\n')
        length--;
    lh_status status = LH_OK;
    if (!is_whole)
        status = lh_fail(error, LH_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    else if (!is_key(line, length))
        status =
            lh_fail(error, LH_ERR_INVALID, "%s must hold one line, the key: 1 to %d visible ASCII characters",
                    path, LH_API_KEY_BYTES - 1);
    else
        memcpy(text, line, length);
    if (!status)
        text[length] = '\0';
    explicit_bzero(line, sizeof line);
    return status;
}

lh_status lh_api_key_read(const char *path, char *text, lh_error *error) {
    FILE *file = fopen(path, "re");
    if (!file)
        return lh_fail(error, LH_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    setvbuf(file, NULL, _IONBF, 0); /* no copy of the key elsewhere */
    lh_status status = read_key(file, path, text, error);
    fclose(file);
    return status;
}

bool lh_api_key_admits(const lh_api_key *key, const char *authorization) {
    if (!key->required)
        return true;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return false;
    const char *shown = authorization + 7;
    shown += strspn(shown, " ");
    uint8_t digest[LH_SHA256_BYTES];
    if (lh_sha256_digest(shown, strlen(shown), digest))
        return false;
    unsigned difference = 0;
    for (size_t i = 0; i < sizeof digest; i++)
        difference |= (unsigned)(digest[i] ^ key->digest[i]);
    return difference == 0;
}
