// A socket as OpenSSL reads and writes it. OpenSSL's own way is by read() and write(), which take longer for
// a socket than recv() and send(), and raise SIGPIPE.
#pragma once

struct bio_st;

namespace sepal::tls {

// Null: there is no memory. The caller owns it; it does not own the descriptor.
[[nodiscard]] bio_st* new_socket_bio(int descriptor);

}  // namespace sepal::tls
