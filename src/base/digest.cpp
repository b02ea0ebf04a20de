#include <sepal/base/digest.hpp>

#include <array>
#include <new>
#include <openssl/evp.h>

namespace sepal {
namespace {

std::string hex_digest(const EVP_MD* algorithm, std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  const int done = EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, algorithm, nullptr);
  // libcrypto has both algorithms, and no input makes them fail: there was no memory.
  if (done != 1) throw std::bad_alloc();
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * std::size_t{size});
  for (std::size_t at = 0; at < size; ++at) {
    text.push_back(digits[digest[at] >> 4]);
    text.push_back(digits[digest[at] & 0xf]);
  }
  return text;
}

}  // namespace

std::string sha1_hex(std::string_view bytes) {
  return hex_digest(EVP_sha1(), bytes);
}

std::string sha256_hex(std::string_view bytes) {
  return hex_digest(EVP_sha256(), bytes);
}

}  // namespace sepal
