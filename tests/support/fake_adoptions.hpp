// Adoptions that a test carries out, or does not.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/command/adoptions.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sepal::test {

// Any thread, but for the fields: those once all is quiet.
class FakeAdoptions final : public command::Adoptions {
 public:
  struct Waiting {
    std::uint64_t client_id = 0;
    std::shared_ptr<const std::atomic<bool>> client_gone;
    command::Adoption adoption;
  };

  void adopt(command::ClientState& client, command::Adoption adoption) override {
    waiting.push_back(
        {.client_id = client.id, .client_gone = client.lifeline.tie(), .adoption = std::move(adoption)});
    ++count;
  }

  std::vector<Waiting> waiting;
  std::atomic<int> count{0};
};

}  // namespace sepal::test
