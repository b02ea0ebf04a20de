// How many file descriptors the process may open, and how many of them clients may have.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/result.hpp>
#include <sepal/server/server.hpp>

#include <cstdint>

namespace sepal::app {

// Confined to the main thread until clients are served; guarded by the gate from then on.
class Descriptors {
 public:
  // Raises the limit of the process as far as the system allows. `options` are those of the server that is
  // going to be made; `other_count` descriptors are for other parts. Descriptors that are open now are
  // counted as needed. Errors: io if none is left for a client; the sentence names how many are needed.
  static Result<Descriptors> plan(const server::ServerOptions& options, std::uint64_t other_count);

  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  // How many descriptors the process needs to serve this many clients.
  [[nodiscard]] std::uint64_t needed_for(std::uint64_t clients) const { return reserved_ + clients; }
  // How many clients the process can serve under the limit.
  [[nodiscard]] std::uint64_t clients_possible() const {
    SEPAL_ASSERT(limit_ >= reserved_, "the process needs more descriptors than it may have");
    return limit_ - reserved_;
  }
  // Reads the system's limit again, which may have changed. One call at a time.
  void look_again();

 private:
  Descriptors(std::uint64_t limit, std::uint64_t reserved) : limit_(limit), reserved_(reserved) {}

  std::uint64_t limit_;     // at least reserved_
  std::uint64_t reserved_;  // for the process itself
};

}  // namespace sepal::app
