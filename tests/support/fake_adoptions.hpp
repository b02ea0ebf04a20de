// A fake of Adoptions: the test decides whether to carry an adoption out.
#pragma once

#include <sepal/command/run/adoptions.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sepal::test {

// Any thread may call it. Only the test's thread uses the fields, when no other thread is active.
class FakeAdoptions final : public command::Adoptions {
 public:
  struct Waiting {
    std::uint64_t client_id = 0;
    std::shared_ptr<const std::atomic<bool>> client_gone;
    command::Adoption adoption;
    command::Errand errand;
  };

  void adopt(command::ClientState& client, command::Adoption adoption) override {
    push(client, std::move(adoption), {});
  }
  void run(command::ClientState& client, command::Errand errand) override {
    push(client, {}, std::move(errand));
  }
  [[nodiscard]] command::AdoptionStatus status() const override { return state; }

  std::vector<Waiting> waiting;
  command::AdoptionStatus state;
  std::atomic<int> count{0};

 private:
  void push(command::ClientState& client, command::Adoption adoption, command::Errand errand) {
    waiting.push_back({.client_id = client.id,
                       .client_gone = client.lifeline.tie(),
                       .adoption = std::move(adoption),
                       .errand = std::move(errand)});
    ++count;
  }
};

// A folder in memory.
class FakeTransfers final : public command::Transfers {
 public:
  [[nodiscard]] bool enabled() const override { return there; }
  Result<value::ValuePtr> read(const std::string& name, value::Kind, const command::JobContext&) override {
    const auto found = files.find(name);
    if (found == files.end()) return fail(Errc::not_found, "cannot open " + name);
    return found->second;
  }
  Result<void> write(const command::OutgoingFile& file, const command::JobContext& job) override {
    auto copied = file.value->copy(job.limits, job.go_on);
    if (!copied) return copied.error();
    files[file.name] = std::move(*copied);
    return {};
  }

  bool there = true;
  std::map<std::string, value::ValuePtr> files;
};

}  // namespace sepal::test
