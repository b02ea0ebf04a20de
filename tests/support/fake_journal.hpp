// A fake of the journal's state for commands and sessions: the test sets it.
#pragma once

#include <sepal/command/run/services.hpp>

#include <atomic>
#include <cstdint>

namespace sepal::test {

class FakeJournal final : public command::Journal {
 public:
  [[nodiscard]] std::uint64_t durable_position() const override { return durable; }
  [[nodiscard]] command::JournalStatus status() const override { return state; }

  std::atomic<std::uint64_t> durable{0};
  command::JournalStatus state;
};

}  // namespace sepal::test
