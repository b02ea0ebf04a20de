#include <sepal/base/hash.hpp>

namespace sepal {

Checksum::Checksum() : state_(XXH3_createState()) {
  XXH3_64bits_reset(state_.get());
}

void Checksum::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(state_.get());
}

std::uint64_t Checksum::of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void Checksum::Free::operator()(XXH3_state_t* state) const {
  XXH3_freeState(state);
}

}  // namespace sepal
