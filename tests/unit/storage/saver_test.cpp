#include <sepal/storage/generation/saver.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <future>

#include "support/catch.hpp"
#include "support/eventually.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"

namespace saver_test {

using namespace sepal;
using namespace sepal::storage;
using namespace std::chrono_literals;
using test::SimulatedDisk;

namespace {

// A directory with a saver; a save can be held at the start of its first file.
struct Saving {
  SimulatedDisk disk;
  std::unique_ptr<DataDirectory> directory;
  test::Filters filters;
  Gate gate{2};
  std::atomic<std::uint64_t> changes{0};
  std::atomic<std::uint64_t> journal_position{0};
  std::atomic<std::uint64_t> journal_step{0};  // the journal grows by this at each look at its position
  std::atomic<std::uint64_t> position_synced{0};
  std::atomic<bool> journal_fails{false};
  std::atomic<std::uint64_t> journal_gap{0};
  std::atomic<std::uint64_t> adopted_bytes{0};
  std::atomic<bool> asks_back{false};  // the callbacks call the saver
  std::atomic<int> looks_to_come{0};   // looks before on_looked is called
  std::function<void()> on_looked;
  std::atomic<int> journal_gaps_to_come{0};  // each look makes one of these gaps
  std::atomic<std::uint64_t> position_saved{0};
  std::atomic<std::uint64_t> lacking_bytes{0};
  std::atomic<int> failures{0};
  std::atomic<bool> reserve_there{false};  // without it the disk is full
  std::atomic<std::uint64_t> bytes_left{0};
  std::atomic<int> returns{0};  // how often the reserve was given back
  std::unique_ptr<Saver> saver;

  Saving() {
    auto opened = DataDirectory::open(disk, "data", 1, std::nullopt);
    REQUIRE(opened);
    directory = std::move(*opened);
    saver = std::make_unique<Saver>(
        *directory, filters.keyspace, gate,
        SaverCallbacks{.changes =
                           [this] {
                             if (--looks_to_come == 0) on_looked();
                             return changes.load();
                           },
                       .journal_position = [this] { return journal_position += journal_step; },
                       .adopted_bytes =
                           [this] {
                             if (asks_back) static_cast<void>(saver->status());
                             return adopted_bytes.load();
                           },
                       .journal_gap = [this] { return journal_gap += journal_gaps_to_come-- > 0 ? 1 : 0; },
                       .sync_journal =
                           [this](std::uint64_t position) {
                             position_synced = position;
                             return journal_fails ? Result<void>(fail(Errc::io, "the journal"))
                                                  : Result<void>();
                           },
                       .saved = [this](std::uint64_t position) { position_saved = position; },
                       .failed =
                           [this](const Error&, std::uint64_t bytes) {
                             lacking_bytes = bytes;
                             ++failures;
                           },
                       .lend_reserve =
                           [this](std::uint64_t left, bool) {
                             bytes_left = left;
                             if (!reserve_there.exchange(false)) return false;
                             disk.free_space();
                             return true;
                           },
                       .reserve_returned = [this] { ++returns; }},
        Saver::Loaded{.at = test::some_time, .journal_position = 0});
  }

  void add(const std::string& key) {
    const GateClosed closed(gate);
    filters.add(0, key, 10);
    ++changes;
  }

  // Starts a save and waits for its end.
  Result<GenerationReport> save() {
    std::promise<Result<GenerationReport>> promise;
    REQUIRE(saver->start([&](const Result<GenerationReport>& report) { promise.set_value(report); }));
    return promise.get_future().get();
  }
};

// Blocks the thread that makes the first directory on a disk, until let_go().
class Held {
 public:
  explicit Held(SimulatedDisk& disk) {
    disk.set_observer([this](const char* operation, const Path&) {
      if (std::string_view(operation) != "make_directory" || passed_.exchange(true)) return;
      arrived_.set_value();
      let_go_.get_future().wait();
    });
  }
  void wait_until_held() { arrived_.get_future().wait(); }
  void let_go() { let_go_.set_value(); }

 private:
  std::atomic<bool> passed_{false};
  std::promise<void> arrived_;
  std::promise<void> let_go_;
};

// The last operation of a save removes the remains of other saves.
void tell_when_saved(Saving& saving, std::promise<void>& saved) {
  saving.disk.set_observer([&saved](const char* operation, const Path& path) {
    if (std::string_view(operation) == "remove" && path.filename() == "SEED.tmp") saved.set_value();
  });
}

}  // namespace

TEST_CASE("a requested save is done, reported and counted") {
  Saving saving;
  CHECK(saving.saver->status().last_success == test::some_time);
  CHECK_FALSE(saving.saver->status().last_success_steady);
  saving.add("key");
  const auto report = saving.save();
  REQUIRE(report);
  CHECK(report->value_count == 1);
  const SaverStatus status = saving.saver->status();
  CHECK_FALSE(status.running);
  CHECK(status.last_ok);
  CHECK(status.last_success > test::some_time);
  CHECK(status.last_success_steady <= std::chrono::steady_clock::now());
  CHECK(status.last_bytes == report->bytes);
  CHECK(status.saves_done == 1);
  CHECK(status.changes_saved == 1);
  CHECK(test::same(saving.filters.keyspace.cut(), test::load(*saving.directory).filters));
}

TEST_CASE("a second save is refused while one runs, and allowed after it") {
  Saving saving;
  Held held(saving.disk);
  std::promise<bool> follow_up;
  REQUIRE(saving.saver->start(
      [&](const Result<GenerationReport>&) { follow_up.set_value(saving.saver->start({}).ok()); }));
  CHECK(saving.saver->status().running);
  held.wait_until_held();
  CHECK(saving.saver->status().running);
  const auto second = saving.saver->start({});
  REQUIRE(!second);
  CHECK(second.error().code == Errc::in_use);
  held.let_go();
  CHECK(follow_up.get_future().get());
  saving.saver->stop();
  CHECK(saving.saver->status().saves_done == 2);
}

TEST_CASE("no worker waits at the gate while a save writes") {
  Saving saving;
  Held held(saving.disk);
  saving.add("before");
  REQUIRE(saving.saver->start({}));
  held.wait_until_held();
  saving.gate.enter(0);
  saving.gate.leave(0);
  saving.add("after the cut");
  held.let_go();
  saving.saver->stop();
  CHECK(test::load(*saving.directory).filters.size() == 1);
  CHECK(saving.saver->status().changes_saved == 1);
}

TEST_CASE("a save has all items that were added before it began, while threads add and filters grow") {
  Saving saving;
  bloom::Filter& filter = saving.filters.add(0, "key", 0, {.error_rate = 0.01, .capacity = 4, .seed = 5});
  std::atomic<bool> ended{false};
  std::atomic<std::uint64_t> added[2] = {0, 0};
  const auto item_of = [](std::size_t side, std::uint64_t i) {
    return std::to_string(side) + "/" + std::to_string(i);
  };
  const auto add_alone = [&](std::string_view item) {
    const GateClosed closed(saving.gate);
    static_cast<void>(sepal::writers::add_alone(saving.filters.keyspace, 0, filter, item));
  };
  const auto add_items = [&](std::size_t side) {
    for (std::uint64_t i = 0; !ended; ++i) {
      const std::string item = item_of(side, i);
      const std::string_view view = item;
      bool is_new = false;
      saving.gate.enter(side);
      const bool room = filter.try_add({&view, 1}, {&is_new, 1});
      saving.gate.leave(side);
      if (!room) add_alone(item);
      added[side] = i + 1;
    }
  };
  std::thread adders[2] = {std::thread(add_items, 0), std::thread(add_items, 1)};
  for (int save = 0; save < 5; ++save) {
    const std::uint64_t before[2] = {added[0], added[1]};
    REQUIRE(saving.save());
    const auto loaded = test::load(*saving.directory);
    REQUIRE(loaded.filters.size() == 1);
    std::uint64_t missing = 0;
    for (const std::size_t side : {0, 1})
      for (std::uint64_t i = 0; i < before[side]; ++i)
        missing += test::contains(*loaded.filters.begin()->second, item_of(side, i)) ? 0 : 1;
    CHECK(missing == 0);
  }
  ended = true;
  for (std::thread& adder : adders) adder.join();
}

TEST_CASE("a failed save says why, and the next one works") {
  Saving saving;
  saving.add("key");
  saving.disk.fill_at(1);
  const auto failed = saving.save();
  REQUIRE(!failed);
  CHECK(failed.error().code == Errc::disk_full);
  CHECK_FALSE(saving.saver->status().last_ok);
  CHECK(saving.saver->status().last_error == failed.error().detail);
  CHECK(saving.saver->status().saves_done == 0);
  CHECK(saving.saver->status().changes_saved == 0);
  saving.disk.free_space();
  REQUIRE(saving.save());
  CHECK(saving.saver->status().last_ok);
  CHECK(saving.saver->status().last_error.empty());
}

TEST_CASE("the interval saves changes again and again, and nothing without changes") {
  Saving saving;
  std::promise<void> saved[2];
  std::atomic<int> saves{0};
  saving.disk.set_observer([&](const char* operation, const Path& path) {
    // The last operation of a save removes the remains of others.
    if (std::string_view(operation) != "remove" || path.filename() != "SEED.tmp") return;
    if (const int save = saves++; save < 2) saved[save].set_value();
  });
  saving.saver->set_options({.interval = 1ms});
  saving.add("first");
  saved[0].get_future().wait();
  saving.add("second");
  saved[1].get_future().wait();
  saving.saver->set_options({});
  saving.saver->stop();
  CHECK(saves == 2);
  CHECK(test::load(*saving.directory).filters.size() == 2);
}

TEST_CASE("the last save happens if something changed since the one before") {
  Saving saving;
  const auto never = [] { return false; };
  saving.add("key");
  const auto first = saving.saver->save_at_stop(never);
  REQUIRE(first);
  CHECK(first->name == "generation-000000000001");
  const auto again = saving.saver->save_at_stop(never);
  REQUIRE(again);
  CHECK(again->name == "generation-000000000001");
  saving.add("another");
  CHECK(saving.saver->save_at_stop(never)->name == "generation-000000000002");
  CHECK(saving.saver->start({}).error().code == Errc::in_use);
}

TEST_CASE("if nothing changed since the load, the last save does nothing") {
  Saving saving;
  const auto report = saving.saver->save_at_stop([] { return false; });
  REQUIRE(report);
  CHECK(report->name.empty());
  CHECK(*saving.disk.list("data") == std::vector<std::string>{"SEED"});
}

TEST_CASE("the last save waits for the running one, and saves later changes") {
  Saving saving;
  Held held(saving.disk);
  saving.add("before");
  REQUIRE(saving.saver->start({}));
  held.wait_until_held();
  saving.add("after");
  auto last =
      std::async(std::launch::async, [&] { return saving.saver->save_at_stop([] { return false; }); });
  held.let_go();
  const auto report = last.get();
  REQUIRE(report);
  CHECK(report->value_count == 2);
  CHECK(saving.saver->status().saves_done == 2);
}

TEST_CASE("a save records the journal position of its cut, and of each filter's layers") {
  Saving saving;
  saving.add("key");
  saving.journal_position = 700;
  const auto report = saving.save();
  REQUIRE(report);
  CHECK(report->journal_position == 700);
  CHECK(saving.position_saved == 700);
  CHECK(saving.saver->status().journal_position == 700);
  const auto sink = [](std::span<LoadedValue> filters) {
    CHECK(filters.front().journal_position == 700);
    return Result<void>();
  };
  const auto loaded = saving.directory->load(test::roomy, sink, {});
  REQUIRE(loaded);
  CHECK(loaded->journal_position == 700);
}

TEST_CASE("a journal that is long compared with the data begins a save") {
  Saving saving;
  saving.add("key");
  const std::uint64_t data_bytes = saving.filters.keyspace.memory_used();
  std::promise<void> saved;
  tell_when_saved(saving, saved);
  saving.journal_position = 2 * data_bytes;
  saving.saver->set_options({.journal_bytes_min = data_bytes, .journal_share = 3});
  CHECK(saving.saver->status().saves_done == 0);
  saving.saver->set_options({.journal_bytes_min = data_bytes, .journal_share = 1.5});
  saved.get_future().wait();
  saving.saver->stop();
  CHECK(saving.saver->status().saves_done == 1);
}

TEST_CASE("adopted files count like the journal when the saver decides to save") {
  Saving saving;
  saving.add("key");
  const std::uint64_t data_bytes = saving.filters.keyspace.memory_used();
  std::promise<void> saved;
  tell_when_saved(saving, saved);
  saving.adopted_bytes = 2 * data_bytes;
  saving.saver->set_options({.journal_bytes_min = data_bytes, .journal_share = 1.5});
  saved.get_future().wait();
  saving.saver->stop();
  CHECK(saving.saver->status().saves_done == 1);
}

TEST_CASE("the saver's callbacks may call the saver: no lock is held") {
  Saving saving;
  saving.add("key");
  std::promise<void> saved;
  tell_when_saved(saving, saved);
  saving.asks_back = true;
  saving.adopted_bytes = 2 * saving.filters.keyspace.memory_used();
  saving.saver->set_options({.journal_bytes_min = 1, .journal_share = 1});
  saved.get_future().wait();
  saving.saver->stop();
  CHECK(saving.saver->status().saves_done >= 1);
}

TEST_CASE("with a share of 0 no journal begins a save, and without a least size every share counts") {
  Saving saving;
  saving.add("key");
  REQUIRE(saving.save());
  saving.journal_position = std::uint64_t{1} << 40;
  // At the end of each interval the saver checks every reason for a save.
  std::promise<void> looked;
  saving.on_looked = [&] { looked.set_value(); };
  saving.looks_to_come = 3;
  saving.saver->set_options({.interval = 1ms, .journal_bytes_min = 1, .journal_share = 0});
  looked.get_future().wait();
  CHECK(saving.saver->status().saves_done == 1);
  std::promise<void> saved;
  tell_when_saved(saving, saved);
  saving.saver->set_options({.journal_bytes_min = 0, .journal_share = 1});
  saved.get_future().wait();
  saving.saver->stop();
  CHECK(saving.saver->status().saves_done == 2);
}

TEST_CASE("a demanded save is repeated until it succeeds, and links nothing") {
  Saving saving;
  saving.add("key");
  saving.disk.fill_at(1);
  std::promise<void> failed;
  std::promise<void> saved;
  std::atomic<int> tries{0};
  saving.disk.set_observer([&](const char* operation, const Path& path) {
    CHECK(std::string_view(operation) != "link");
    if (std::string_view(operation) == "make_directory" && ++tries == 1) failed.set_value();
    if (std::string_view(operation) == "remove" && path.filename() == "SEED.tmp") saved.set_value();
  });
  saving.saver->demand();
  failed.get_future().wait();
  saving.disk.free_space();
  saved.get_future().wait();
  saving.saver->stop();
  CHECK(saving.saver->status().last_ok);
  CHECK(saving.saver->status().saves_done == 1);
  CHECK(tries >= 1);
}

TEST_CASE("a save keeps to its bandwidth, and the save at a stop does not") {
  Saving saving;
  {
    const GateClosed closed(saving.gate);
    saving.filters.add(0, "key", 1, {.error_rate = 0.01, .capacity = 4'000'000, .seed = 5});
  }
  // Five megabytes take a quarter of a second, minus the delay of one look at the progress.
  saving.saver->set_options({.bytes_per_second_max = 20'000'000});
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(saving.save());
  CHECK(std::chrono::steady_clock::now() - start > 150ms);
  saving.saver->set_options({.bytes_per_second_max = 1});
  ++saving.changes;
  REQUIRE(saving.saver->save_at_stop([] { return false; }));
}

TEST_CASE("a save that the journal demands has no bandwidth limit, nor has a save that runs before it") {
  Saving saving;
  {
    const GateClosed closed(saving.gate);
    saving.filters.add(0, "key", 1, {.error_rate = 0.01, .capacity = 4'000'000, .seed = 5});
  }
  saving.saver->set_options({.bytes_per_second_max = 1});
  std::promise<bool> slow;
  REQUIRE(saving.saver->start([&](const Result<GenerationReport>& report) { slow.set_value(report.ok()); }));
  auto ended = slow.get_future();
  CHECK(ended.wait_for(100ms) == std::future_status::timeout);
  saving.saver->demand();
  CHECK(ended.wait_for(test::patience) == std::future_status::ready);
  CHECK(test::eventually([&] { return saving.saver->status().saves_done == 2; }));
  saving.saver->set_options({});
}

TEST_CASE("a cancelled last save ends the running save as well") {
  Saving saving;
  Held held(saving.disk);
  saving.add("key");
  std::promise<bool> ended;
  REQUIRE(saving.saver->start([&](const Result<GenerationReport>& report) { ended.set_value(report.ok()); }));
  held.wait_until_held();
  int asked = 0;
  const auto report = saving.saver->save_at_stop([&] {
    if (++asked == 2) held.let_go();  // The saver has used the first answer.
    return true;
  });
  REQUIRE(!report);
  CHECK(report.error().code == Errc::io);
  CHECK_FALSE(ended.get_future().get());
  CHECK_FALSE(saving.disk.files().contains("data/CURRENT"));
}

TEST_CASE("a generation that relies on the journal after its cut waits until the journal is on the disk") {
  Saving saving;
  saving.add("key");
  saving.journal_step = 100;
  const auto report = saving.save();
  REQUIRE(report);
  CHECK(saving.position_synced > report->journal_position);
  saving.journal_fails = true;
  saving.add("another");
  const auto failed = saving.save();
  REQUIRE_FALSE(failed);
  CHECK(failed.error().detail == "the journal");
  CHECK(saving.position_saved == report->journal_position);
}

// Else a crash would leave a filter that knows items which it does not count.
TEST_CASE(
    "an add that is under way while its filter is read is in the journal before the generation is current") {
  Saving saving;
  saving.add("key");
  Held held(saving.disk);
  std::promise<Result<GenerationReport>> saved;
  REQUIRE(saving.saver->start([&](const Result<GenerationReport>& report) { saved.set_value(report); }));
  held.wait_until_held();
  saving.gate.enter(0);  // a worker sets the bits of an item
  held.let_go();
  constexpr std::uint64_t recorded_until = 500;
  saving.journal_position = recorded_until;
  saving.gate.leave(0);
  REQUIRE(saved.get_future().get());
  CHECK(saving.position_synced == recorded_until);
}

TEST_CASE("a save begins again if the journal has a gap between the cut and its filters' positions") {
  Saving saving;
  saving.add("key");
  saving.journal_step = 100;
  const auto whole = saving.save();
  REQUIRE(whole);
  const std::uint64_t before = saving.journal_position;
  saving.journal_gaps_to_come = 4;
  const auto report = saving.save();
  REQUIRE(report);
  // The save began two more times because of gaps. Each attempt made a cut and a step.
  CHECK(report->journal_position >= before + 500);
  CHECK(saving.position_saved == report->journal_position);
}

TEST_CASE("a save that finds the disk full borrows the reserve") {
  Saving saving;
  saving.add("key");
  saving.disk.fill_at(0);
  saving.reserve_there = true;
  REQUIRE(saving.save());
  CHECK(saving.returns == 1);
  CHECK(saving.failures == 0);
  CHECK(saving.saver->status().last_ok);
  CHECK(test::same(saving.filters.keyspace.cut(), test::load(*saving.directory).filters));
}

TEST_CASE("a save asks the reserve for what does not fit, though not even its first piece was written") {
  const bloom::FilterOptions large{.error_rate = 0.01, .capacity = 50'000, .seed = 1};
  Saving whole;
  whole.filters.add(0, "key", 10, large);
  REQUIRE(whole.save());
  const std::uint64_t bytes = whole.saver->status().last_bytes;
  Saving saving;
  saving.filters.add(0, "key", 10, large);
  constexpr std::uint64_t room = std::uint64_t{1} << 30;
  saving.disk.set_capacity(room);
  const std::uint64_t taken = room - *saving.disk.free_bytes("data");
  saving.disk.set_capacity(taken + bytes * 9 / 10);
  REQUIRE(!saving.save());
  CHECK(saving.bytes_left > 0);
  CHECK(saving.bytes_left < bytes / 2);
}

TEST_CASE("a failed save says how much room it lacked") {
  Saving saving;
  saving.add("key");
  saving.disk.fill_at(0);
  REQUIRE(!saving.save());
  CHECK(saving.failures == 1);
  CHECK(saving.lacking_bytes > 0);
  CHECK(saving.returns == 0);
  saving.disk.free_space();
  saving.journal_fails = true;
  saving.journal_step = 1;
  REQUIRE(!saving.save());
  CHECK(saving.failures == 2);
  CHECK(saving.lacking_bytes == 0);
}

TEST_CASE("a save that has to free room begins by itself, and is repeated until it succeeds") {
  Saving saving;
  saving.add("key");
  // Behind the look for remains of other saves, whose errors do not count.
  constexpr std::uint64_t looks = 4;
  saving.disk.fail_at(saving.disk.operation_count() + looks + 1, Errc::io);
  std::promise<void> saved;
  tell_when_saved(saving, saved);
  saving.saver->make_room();
  saving.saver->make_room();
  saved.get_future().wait();
  saving.saver->stop();
  saving.disk.set_observer({});
  CHECK(saving.failures == 1);
  CHECK(saving.saver->status().saves_done == 1);
}

}  // namespace saver_test
