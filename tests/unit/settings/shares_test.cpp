#include <sepal/settings/shares.hpp>

#include "support/catch.hpp"

namespace shares_test {

using namespace sepal::settings;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t gib = 1024 * mib;

Settings settings_for(std::uint32_t workers) {
  Settings settings;
  settings.server.worker_count = workers;
  return settings;
}

}  // namespace

TEST_CASE("a large machine keeps the defaults, and the filters get what they leave") {
  const Settings settings = settings_for(4);
  const MemoryShares shares = memory_shares(64 * gib, settings);
  CHECK(shares.clients == settings.runtime.clients_memory_max);
  CHECK(shares.scripts == settings.runtime.script_memory_max);
  CHECK(shares.filters == 64 * gib - shares.clients - 4 * shares.scripts - gib);
}

TEST_CASE("a small container lowers the defaults to an eighth each") {
  const MemoryShares shares = memory_shares(256 * mib, settings_for(1));
  CHECK(shares.clients == 32 * mib);
  CHECK(shares.scripts == 32 * mib);
  CHECK(shares.filters == 160 * mib);
  CHECK(memory_shares(256 * mib, settings_for(2)).scripts == 16 * mib);
}

TEST_CASE("values that were set are kept") {
  Settings settings = settings_for(2);
  settings.runtime.clients_memory_max = 100 * mib;
  settings.runtime.script_memory_max = 20 * mib;
  const MemoryShares shares = memory_shares(256 * mib, settings);
  CHECK(shares.clients == 100 * mib);
  CHECK(shares.scripts == 20 * mib);
  CHECK(shares.filters == (256 - 100 - 2 * 20 - 32) * mib);
  settings.runtime.clients_memory_max = 0;  // no bound
  CHECK(memory_shares(256 * mib, settings).clients == 0);
  CHECK(memory_shares(256 * mib, settings).filters == (256 - 32 - 2 * 20 - 32) * mib);
}

TEST_CASE("the filters get a quarter at least") {
  Settings settings = settings_for(8);
  settings.runtime.clients_memory_max = gib;
  CHECK(memory_shares(256 * mib, settings).filters == 64 * mib);
  CHECK(memory_shares(64 * mib, settings_for(8)).filters == 16 * mib);
}

TEST_CASE("where nothing is known, nothing is limited") {
  const Settings settings = settings_for(2);
  const MemoryShares shares = memory_shares(0, settings);
  CHECK(shares.filters == 0);
  CHECK(shares.clients == settings.runtime.clients_memory_max);
  CHECK(shares.scripts == settings.runtime.script_memory_max);
}

TEST_CASE("a small disk lowers the journal's segment and the reserve") {
  Settings settings = settings_for(1);
  CHECK(disk_shares(64 * mib, settings).journal_segment == 4 * mib);
  CHECK(disk_shares(64 * mib, settings).reserve == 16 * mib);
  CHECK(disk_shares(8 * mib, settings).journal_segment == 2 * mib);
  for (const std::uint64_t capacity : {std::uint64_t{0}, 2 * gib, 1000 * gib}) {
    CHECK(disk_shares(capacity, settings).journal_segment == settings.journal_segment_bytes);
    CHECK(disk_shares(capacity, settings).reserve == settings.disk_reserve_bytes);
  }
  settings.journal_segment_bytes = 32 * mib;
  settings.disk_reserve_bytes = 40 * mib;
  CHECK(disk_shares(64 * mib, settings).journal_segment == 32 * mib);
  CHECK(disk_shares(64 * mib, settings).reserve == 40 * mib);
}

}  // namespace shares_test
