/* OpenSSL's errors in plain words. Thread: any. */
#pragma once

/* Of a code as ERR_peek_error gives it; static, or OpenSSL's own, which lives as long. */
const char *lh_tls_reason(unsigned long code);
