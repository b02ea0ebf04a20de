// The memory of OpenSSL.
#pragma once

namespace sepal::tls {

// Has libcrypto and libssl take from the memory reserve what the system refuses, as operator new does
// (base/memory_reserve.hpp). Without it a digest or a handshake fails first. Once, before anything else of
// OpenSSL is called; later, it has no effect.
void use_memory_reserve();

}  // namespace sepal::tls
