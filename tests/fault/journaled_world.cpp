#include "journaled_world.hpp"

#include <sepal/bloom/filter/image.hpp>
#include <sepal/storage/generation/snapshot.hpp>
#include <sepal/writers/bloom_writer.hpp>
#include <sepal/writers/string_writer.hpp>

#include "support/catch.hpp"
#include "support/keys_made.hpp"
#include "support/redisbloom_filter.hpp"
#include "support/storage_fixture.hpp"
#include "support/values.hpp"

namespace sepal::test {
namespace {

using keyspace::Admission;
using storage::JournalPolicy;

constexpr storage::DataDirectoryOptions some_own_files{.own_file_bytes_min = 200};
// Small enough that a workload fills several segments.
constexpr std::uint64_t segment_bytes = 16 << 10;
// A frame is at most an eighth of a segment, and a piece of a long string has 64 KiB.
constexpr std::uint64_t segment_bytes_of_longer = 1 << 20;
// An image of such a string fits into a frame of a small segment.
constexpr std::size_t shorter_bytes_max = 600;
constexpr std::size_t longer_bytes_max = 400'000;
constexpr std::size_t long_piece_bytes = keyspace::written_bytes_max + 5000;
constexpr std::uint64_t sparse_from = 256 << 10;
constexpr keyspace::KeyspaceOptions small_filters{
    .memory_max = std::uint64_t{1} << 33, .capacity = 8, .seed = 7};
const storage::Path data = "data";
// The key of a filter that rarely changes between saves, and that is large enough for a file that saves link.
constexpr const char* still_key = "still";
constexpr std::uint64_t still_capacity = 3000;
constexpr std::size_t key_bytes_max = 16;
constexpr std::uint32_t databases = 2;
// Bounds loops that wait for a few rounds of the journal's work. They need fewer tries.
constexpr int tries_max = 10;
constexpr std::uint32_t item_numbers = 5000;
constexpr std::uint32_t batch_items_max = 12;
// Most transactions are short. Some fill several frames of a segment of this size, and go on in the next.
constexpr std::uint32_t long_transaction_changes = 24;
constexpr std::uint32_t short_transaction_changes_max = 4;
constexpr std::array<const char*, 6> keys{"a", "b", "users", "users:next", "c", "bits"};

std::string item_of(std::uint32_t number) {
  return "item:" + std::to_string(number);
}

std::uint32_t below(std::mt19937_64& random, std::uint32_t bound) {
  return static_cast<std::uint32_t>(random() % bound);
}

}  // namespace

JournaledWorld::JournaledWorld(std::unique_ptr<SimulatedDisk> disk, JournalPolicy policy, Strings strings)
    : disk_(std::move(disk)), keyspace_(small_filters, housekeeper_), policy_(policy), strings_(strings) {
  recover();
}

JournaledWorld::~JournaledWorld() {
  disk_->set_observer({});
  if (journal_ != nullptr) static_cast<void>(journal_->stop());
}

void JournaledWorld::recover() {
  const auto recovered = try_recover();
  if (!recovered) error_ = recovered.error().detail;
}

Result<void> JournaledWorld::try_recover() {
  // Each recovery is another run.
  static std::atomic<std::uint64_t> drawn{1};
  auto directory = storage::DataDirectory::open(*disk_, data, drawn++, std::nullopt, some_own_files);
  if (!directory) return directory.error();
  directory_ = std::move(*directory);
  storage::ReplayStart start;
  const auto put = [&](std::span<storage::LoadedValue> filters) -> Result<void> {
    const GateClosed closed(gate_);
    for (auto& loaded : filters) {
      start.positions.note(loaded, *loaded.value);
      if (auto done = keyspace_.put({loaded.database, loaded.key}, std::move(loaded.value), loaded.deadline);
          !done)
        return done;
    }
    return {};
  };
  const auto loaded = directory_->load(roomy, put, {});
  if (!loaded) return loaded.error();
  start.cut = loaded->journal_position;
  start.mirrors = loaded->mirrors;
  start.run = loaded->run;
  auto replayed = storage::replay_journal(*disk_, data, keyspace_, gate_, std::move(start), {});
  if (!replayed) return replayed.error();
  if (auto removed = storage::remove_beyond(*disk_, data, *replayed); !removed) return removed;
  auto files = storage::AdoptedFiles::open(*disk_, data, std::move(replayed->named));
  if (!files) return files.error();
  files_ = std::move(*files);
  storage::JournalOptions options = journal_options();
  options.lineage = directory_->lineage();
  options.lineage.run_before = replayed->run;
  auto journal =
      storage::Journal::open(*disk_, data, replayed->position, 1, options,
                             {.on_progress = {}, .on_save_needed = [this] { needs_save_ = true; }});
  if (!journal) return journal.error();
  journal_ = std::move(*journal);
  ends_ = {journal_->position()};
  return {};
}

storage::JournalOptions JournaledWorld::journal_options() const {
  return {.policy = policy_,
          .segment_bytes = strings_ == Strings::longer ? segment_bytes_of_longer : segment_bytes,
          .segments_ahead = 1,
          .threaded = false};
}

void JournaledWorld::begin_from(Model model) {
  for (auto& [key, known] : model) {
    const value::Value& found = *keyspace_.find({key.first, key.second});
    known.item_count = value::row_of(found).item_count(found);
  }
  model.mirrors = keyspace_.mirrors().all();
  models_ = {std::move(model)};
}

Model JournaledWorld::outline() const {
  Model model;
  for (std::uint32_t database = 0; database < databases; ++database)
    keyspace_.for_each_key(database, [&](std::string_view name) {
      const keyspace::DatabaseKey key{.database = database, .key = name};
      const value::Value& found = *keyspace_.find(key);
      const auto* const string = value::as<strings::String>(&found);
      model[{database, std::string(name)}] = {
          .item_count = value::row_of(found).item_count(found),
          .items = {},
          .deadline = keyspace_.deadline(key),
          .string = string != nullptr ? std::optional(string->text()) : std::nullopt};
    });
  model.mirrors = keyspace_.mirrors().all();
  return model;
}

bool JournaledWorld::admitted(std::size_t item_count, std::size_t changes) {
  if (!journal_->log(0).recording()) return true;
  const std::uint64_t adds =
      sepal::writers::record_bytes_of_adds_alone(key_bytes_max, item_count, small_filters.layers_max);
  // A short transaction may begin a mirror before it adds.
  const bool may_begin_mirror = changes > 1 && changes <= short_transaction_changes_max;
  const std::uint64_t mirrored =
      may_begin_mirror
          ? 2 * adds
          : sepal::writers::record_bytes_of_mirror(keyspace_.mirrors(), item_count, small_filters.layers_max);
  const std::uint64_t strings = sepal::writers::record_bytes_of_string(
      key_bytes_max, strings_ == Strings::longer ? longer_bytes_max : 2 * shorter_bytes_max);
  const std::uint64_t bytes = changes * (std::max(adds + mirrored, strings));
  for (int tries = 0; tries < tries_max; ++tries) {
    const Admission admission = journal_->log(0).admit(bytes);
    if (admission != Admission::later) return admission == Admission::granted;
    journal_->work();
  }
  return false;
}

void JournaledWorld::switch_policy(std::mt19937_64& random) {
  constexpr std::array policies{JournalPolicy::off, JournalPolicy::everysec, JournalPolicy::always};
  const GateClosed closed(gate_);
  journal_->set_policy(policies[below(random, policies.size())]);
}

void JournaledWorld::change(std::mt19937_64& random) {
  if (switching_ && below(random, 8) == 0) switch_policy(random);
  // The first change adds to the filter that saves can link later.
  const bool first = models_.size() == 1;
  const std::uint32_t kind = first ? 2 : below(random, 12);
  const bool transaction = kind == 1;
  std::uint32_t changes = 1;
  if (transaction)
    changes = below(random, 4) == 0 ? long_transaction_changes
                                    : 2 + below(random, short_transaction_changes_max - 1);
  if (!admitted(batch_items_max, changes)) return;
  Model model = models_.back();
  model.by_transaction = transaction;
  if (kind == 0) {
    adopt(random, model);
  } else {
    const GateClosed closed(gate_);
    if (transaction) {
      transact(random, model, changes);
    } else {
      change_filters(random, model, {.first = first});
    }
    journal_->log(0).commit();
  }
  model.mirrors = keyspace_.mirrors().all();
  models_.push_back(std::move(model));
  ends_.push_back(journal_->position());
  if (policy_ != JournalPolicy::always || saving_ || switching_) return;
  for (int tries = 0;
       tries < tries_max && durable_model() + 1 < models_.size() && journal_->status().accepting; ++tries)
    journal_->work();
}

void JournaledWorld::change_filters(std::mt19937_64& random, Model& model, const Kind& kind) {
  const std::uint32_t strings_of_twelve = strings_ == Strings::longer ? 9 : 4;
  if (kind.first) {
    add(random, model, false);
  } else if (below(random, kind.in_transaction ? 12 : 6) == 0) {
    change_key(random, model);
  } else if (kind.mirrors && below(random, 8) == 0) {
    change_mirror(random, model);
  } else if (below(random, 12) < strings_of_twelve) {
    change_string(random, model, kind.in_transaction);
  } else {
    add(random, model, kind.in_transaction);
  }
}

void JournaledWorld::transact(std::mt19937_64& random, Model& model, std::uint32_t changes) {
  auto& log = journal_->log(0);
  const bool recording = log.recording();
  if (recording) log.begin_group();
  const bool may_begin_mirror = changes <= short_transaction_changes_max;
  while (changes-- > 0) change_filters(random, model, {.in_transaction = true, .mirrors = may_begin_mirror});
  if (recording) log.end_group();
}

void JournaledWorld::add(std::mt19937_64& random, Model& model, bool in_transaction) {
  const bool still = models_.size() == 1 || (!in_transaction && below(random, 90) == 0);
  const std::string key = still ? still_key : keys[below(random, keys.size())];
  const std::uint32_t database = below(random, databases);
  std::vector<std::uint32_t> numbers(1 + below(random, batch_items_max));
  for (auto& number : numbers) number = below(random, item_numbers);
  std::vector<std::string> texts;
  for (const auto number : numbers) texts.push_back(item_of(number));
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  if (sepal::test::string_at(keyspace_, {database, key}) != nullptr) return;
  bloom::Filter* filter = sepal::test::filter_at(keyspace_, {database, key});
  // Inside the shared gate a growth has a frame of its own, and so have the adds before and behind it. With
  // one item, a crash between them leaves what the model knows.
  const bool shares =
      !in_transaction && filter != nullptr && keyspace_.mirrors().empty() && below(random, 2) == 0;
  if (shares) {
    numbers.resize(1);
    texts.resize(1);
  }
  const std::vector<std::string_view> items(texts.begin(), texts.end());
  std::uint64_t added_count = 0;
  std::vector<std::uint32_t> taken = numbers;  // by the filter; the target of its mirror takes all numbers
  std::array<bool, batch_items_max> added{};
  if (filter != nullptr && sepal::writers::try_add(mutator, {database, key}, *filter, items,
                                                   std::span(added).first(items.size()))) {
    added_count = static_cast<std::uint64_t>(std::ranges::count(added, true));
    if (!in_transaction) static_cast<void>(log.seal_record(true));
  } else {
    if (filter == nullptr)
      filter = *sepal::writers::create(mutator, {database, key},
                                       {.error_rate = 0.001,
                                        .capacity = still ? still_capacity : small_filters.capacity,
                                        .expansion = 1 + below(random, 2),
                                        .seed = small_filters.seed});
    std::vector<bloom::Filter::AddOutcome> outcomes;
    if (shares) {
      Limbo at_once(nullptr);
      keyspace::Mutator sharing(keyspace_, mutator.log(), &at_once);
      REQUIRE(sepal::writers::add_growing(sharing, {database, key}, *filter, items, outcomes));
      if (log.recording()) log.append();
      static_cast<void>(log.seal_record(true));
    } else {
      sepal::writers::add_alone(mutator, {database, key}, *filter, items, outcomes);
    }
    taken.clear();
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      added_count += outcomes[i].added ? 1 : 0;
      const bool refused = outcomes[i].refusal != bloom::Filter::Refusal::none;
      REQUIRE((!refused || filter->full()));
      if (!refused) taken.push_back(numbers[i]);
    }
  }
  ModelFilter& known = model[{database, key}];
  known.item_count += added_count;
  known.items.insert(taken.begin(), taken.end());
  if (const auto* const link = keyspace_.mirrors().whole_from(*filter)) {
    ModelFilter& target = model[{database, link->mirror.target}];
    target.item_count = value::row_of(*link->target).item_count(*link->target);
    target.items.insert(numbers.begin(), numbers.end());
  } else if (const auto* const broken = keyspace_.mirrors().from(*filter)) {
    // If the mirror broke just now, the target has some of the items.
    model[{database, broken->mirror.target}].item_count =
        value::row_of(*broken->target).item_count(*broken->target);
  }
}

// Begins mirrors, and ends them in every way. Some targets are soon full.
void JournaledWorld::change_mirror(std::mt19937_64& random, Model& model) {
  const std::uint32_t database = below(random, databases);
  const std::string from = keys[below(random, keys.size())];
  const std::string to = keys[below(random, keys.size())];
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  const bloom::Filter* const source = sepal::test::filter_at(keyspace_, {database, from});
  if (source == nullptr || sepal::test::string_at(keyspace_, {database, to}) != nullptr) return;
  const auto* const link = keyspace_.mirrors().from(*source);
  const std::uint32_t kind = below(random, 3);
  if (link == nullptr) {
    if (sepal::writers::create(mutator, {database, to},
                               {.error_rate = 0.001,
                                .capacity = small_filters.capacity,
                                .expansion = kind,
                                .seed = small_filters.seed + 1}))
      model[{database, to}] = {};
    static_cast<void>(mutator.begin_mirror(database, from, to));
  } else if (kind == 0) {
    mutator.end_mirror({database, from});
  } else {
    const std::string target = link->mirror.target;
    if (kind == 1) {
      mutator.remove({database, target});
    } else {
      REQUIRE(mutator.rename(database, target, from));
      model[{database, from}] = std::move(model[{database, target}]);
    }
    model.erase({database, target});
  }
}

namespace {

void swap_databases(Model& model, std::uint32_t database, std::uint32_t other) {
  Model swapped;
  for (auto& [key, filter] : model) {
    std::uint32_t now_in = key.first;
    if (now_in == database || now_in == other) now_in = database + other - now_in;
    swapped[{now_in, key.second}] = std::move(filter);
  }
  model = std::move(swapped);
}

}  // namespace

void JournaledWorld::change_key(std::mt19937_64& random, Model& model) {
  const std::uint32_t database = below(random, databases);
  const std::string from = keys[below(random, keys.size())];
  const std::string to = keys[below(random, keys.size())];
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  const std::uint32_t kind = below(random, 40);
  if (kind == 0) {
    mutator.flush_all();
    model.clear();
  } else if (kind == 1) {
    mutator.flush(database);
    std::erase_if(model, [&](const auto& entry) { return entry.first.first == database; });
  } else if (kind == 2) {
    const std::uint32_t other = below(random, databases);
    mutator.swap_databases(database, other);
    swap_databases(model, database, other);
  } else if (kind == 3) {
    const std::uint32_t other = below(random, databases);
    if (mutator.move({database, from}, other)) {
      model[{other, from}] = std::move(model[{database, from}]);
      model.erase({database, from});
    }
  } else if (kind < 11) {
    mutator.remove({database, from});
    model.erase({database, from});
  } else if (kind < 22) {
    const auto deadline = static_cast<keyspace::Deadline>(below(random, 3));
    if (mutator.set_deadline({database, from}, deadline)) model[{database, from}].deadline = deadline;
  } else if (mutator.rename(database, from, to) && from != to) {
    model[{database, to}] = std::move(model[{database, from}]);
    model.erase({database, from});
  }
}

// As the commands on strings do. A filter that is under the key is replaced, or stays.
void JournaledWorld::change_string(std::mt19937_64& random, Model& model, bool in_transaction) {
  const std::string name = keys[below(random, keys.size())];
  StringChange change{.key = {.database = below(random, databases), .key = name},
                      .before = {},
                      .in_transaction = in_transaction};
  const auto* const found = sepal::test::string_at(keyspace_, change.key);
  const std::uint32_t kind = below(random, 10);
  if (sepal::test::filter_at(keyspace_, change.key) != nullptr) {
    if (kind < 3) put_bytes(random, model, change);
    return;
  }
  if (found != nullptr) change.before = found->text();
  if (kind < 5) {
    set_bit(random, model, change);
  } else if (kind < 8) {
    write_bytes(random, model, change);
  } else {
    put_bytes(random, model, change);
  }
}

// SETBIT, to 1 and to 0.
void JournaledWorld::set_bit(std::mt19937_64& random, Model& model, const StringChange& change) {
  const std::uint64_t position = random() % (8 * std::min(change.before.size() + 2, longer_bytes_max));
  const std::uint64_t byte = position / 8;
  const int mask = 0x80 >> position % 8;
  auto& log = journal_->log(0);
  auto* const found = sepal::test::string_at(keyspace_, change.key);
  const bool value = below(random, 3) != 0;
  if (found != nullptr && value) {
    keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
    const auto was_set = sepal::writers::try_set_bit(mutator, change.key, *found, position);
    if (was_set && !change.in_transaction) static_cast<void>(log.seal_record(true));
    if (was_set) {
      std::string& bytes = *model[{change.key.database, std::string(change.key.key)}].string;
      REQUIRE(*was_set == ((bytes[byte] & mask) != 0));
      bytes[byte] = static_cast<char>(bytes[byte] | mask);
      return;
    }
  }
  if (strings_ == Strings::shorter && byte >= shorter_bytes_max) return;
  const int present = byte < change.before.size() ? change.before[byte] : 0;
  write(model, change, byte, std::string(1, static_cast<char>(value ? present | mask : present & ~mask)));
}

std::string JournaledWorld::any_bytes(std::mt19937_64& random, const StringChange& change) const {
  const bool is_long = strings_ == Strings::longer && !change.in_transaction && below(random, 4) == 0;
  std::string bytes(is_long ? long_piece_bytes : 1 + below(random, 100), '\0');
  const bool zeros = below(random, 4) == 0;
  for (char& byte : bytes) byte = zeros ? '\0' : static_cast<char>(random());
  return bytes;
}

// SETRANGE and APPEND. Now and then behind the end, and far behind it: the string is sparse then.
void JournaledWorld::write_bytes(std::mt19937_64& random, Model& model, const StringChange& change) {
  const std::string bytes = any_bytes(random, change);
  const std::size_t length = change.before.size();
  std::uint64_t offset = below(random, 2) == 0 ? length : random() % (length + 20);
  if (strings_ == Strings::longer && below(random, 6) == 0) offset = sparse_from + below(random, 20'000);
  const std::size_t length_max = strings_ == Strings::longer ? longer_bytes_max : shorter_bytes_max;
  if (offset + bytes.size() <= length_max) write(model, change, offset, bytes);
}

// Longer bytes are recorded as a group, as the commands do it.
void JournaledWorld::write(Model& model, const StringChange& change, std::uint64_t offset,
                           const std::string& bytes) {
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  const bool groups = log.recording() && !change.in_transaction && bytes.size() > keyspace::written_bytes_max;
  if (groups) log.begin_group();
  REQUIRE(sepal::writers::write(mutator, change.key, offset, std::as_bytes(std::span(bytes))));
  if (groups) log.end_group();
  std::string all = change.before;
  all.resize(std::max<std::size_t>(all.size(), offset + bytes.size()));
  all.replace(offset, bytes.size(), bytes);
  model[{change.key.database, std::string(change.key.key)}].string = std::move(all);
}

// SET, and COPY from whatever string there is.
void JournaledWorld::put_bytes(std::mt19937_64& random, Model& model, const StringChange& change) {
  ModelFilter known{.deadline = static_cast<keyspace::Deadline>(below(random, 3))};
  const std::string source = keys[below(random, keys.size())];
  const auto* const from = sepal::test::string_at(keyspace_, {change.key.database, source});
  strings::StringPtr made;
  if (from != nullptr && below(random, 2) == 0 &&
      (!change.in_transaction || value::image_bytes(*from) <= segment_bytes)) {
    known.string = from->text();
    made = &value::as<strings::String>(**value::value_of(value::image_of(*from), roomy));
  } else {
    known.string = any_bytes(random, change);
    made = *strings::String::of(*known.string, roomy);
  }
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  const bool groups = log.recording() && !change.in_transaction;
  if (groups) log.begin_group();
  REQUIRE(sepal::writers::put_string(mutator, change.key, made, known.deadline));
  if (groups) log.end_group();
  model[{change.key.database, std::string(change.key.key)}] = std::move(known);
}

// Adopts a filter, Sepal's or RedisBloom's, in a file or in the record, as the daemon does.
void JournaledWorld::adopt(std::mt19937_64& random, Model& model) {
  const keyspace::DatabaseKey key{.database = below(random, databases),
                                  .key = keys[below(random, keys.size())]};
  ModelFilter known{.item_count = 0, .items = {}, .deadline = below(random, 3)};
  const bloom::FilterPtr made =
      below(random, 3) == 0
          ? redisbloom_filter({.error_rate = 0.001, .capacity = small_filters.capacity})
          : *bloom::Filter::create(
                {.error_rate = 0.001, .capacity = small_filters.capacity, .seed = small_filters.seed}, roomy);
  for (std::uint32_t i = below(random, batch_items_max); i-- > 0;) {
    const std::uint32_t number = below(random, item_numbers);
    known.items.insert(number);
    known.item_count += made->add_alone(item_of(number), roomy).added ? 1 : 0;
  }
  auto& log = journal_->log(0);
  keyspace::ImageFile file;
  if (below(random, 2) == 0 && log.recording()) {
    const auto written = files_->write(made, {});
    if (!written) return;
    file = *written;
  }
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  const GateClosed closed(gate_);
  REQUIRE(mutator.adopt(key, made, known.deadline, file));
  log.commit();
  if (file.number != 0) files_->named({.number = file.number, .position = journal_->position()});
  model[{key.database, std::string(key.key)}] = std::move(known);
}

// As the saver does: a demanded save that failed is still demanded.
Result<void> JournaledWorld::save(std::mt19937_64& random) {
  const bool demanded = std::exchange(needs_save_, false);
  saving_ = true;
  auto saved = try_save(random, demanded ? storage::Linking::none : storage::Linking::unchanged);
  saving_ = false;
  if (!saved && demanded) needs_save_ = true;
  return saved;
}

storage::Snapshot JournaledWorld::take_snapshot(const std::function<void()>& interfere) {
  std::unique_ptr<storage::SnapshotTaker> taker;
  {
    const GateClosed closed(gate_);
    taker = std::make_unique<storage::SnapshotTaker>(keyspace_, some_time, journal_->position());
  }
  taker->reserve();
  for (bool last = false; !last;) {
    interfere();
    const GateClosed closed(gate_);
    last = taker->step(2, journal_->position());
  }
  return taker->finish();
}

Result<void> JournaledWorld::try_save(std::mt19937_64& random, storage::Linking linking) {
  const auto interfere = [&] {
    for (std::uint32_t i = below(random, 3); i-- > 0;) change(random);
  };
  std::uint64_t gap = journal_->gap();
  storage::Snapshot snapshot = take_snapshot(interfere);
  while (journal_->gap() != gap) {
    gap = journal_->gap();
    snapshot = take_snapshot(interfere);
  }
  if (snapshot.taken_until() > snapshot.journal_position) {
    if (auto synced = journal_->sync_until(snapshot.taken_until()); !synced) return synced.error();
  }
  const bool has_string = std::ranges::any_of(
      snapshot.entries, [](const auto& entry) { return entry.value->kind() == value::Kind::string; });
  const auto sync_what_was_read = [&]() -> Result<void> {
    const std::uint64_t position = journal_->position();
    if (!has_string || position <= snapshot.journal_position) return {};
    // A change may make the journal work, which does not do so within its work.
    interfere_ = {};
    auto synced = journal_->sync_until(position);
    interfere_ = interfere;
    return synced;
  };
  interfere_ = interfere;
  const auto report = directory_->save(snapshot, {}, linking, sync_what_was_read);
  interfere_ = {};
  if (!report) return report.error();
  linked_bytes_ += report->linked_bytes;
  journal_->generation_saved(report->journal_position);
  files_->generation_saved(report->journal_position);
  return {};
}

std::pair<std::uint64_t, std::uint64_t> JournaledWorld::last_change() const {
  return {ends_[ends_.size() < 2 ? 0 : ends_.size() - 2], ends_.back()};
}

std::size_t JournaledWorld::model_at(std::uint64_t position) const {
  const auto first_lost = std::ranges::upper_bound(ends_, position);
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(first_lost - ends_.begin(), 1) - 1);
}

void JournaledWorld::check_account() {
  // A string whose account is wrong would leave a page at least.
  constexpr std::uint64_t page_bytes = 4096;
  for (const auto& [key, known] : outline()) REQUIRE(keyspace_.remove({key.first, key.second}));
  Filters empty;
  // Tables stay, also those of databases that have lost all keys.
  test::make_all_tables(keyspace_);
  test::make_all_tables(empty.keyspace);
  REQUIRE(keyspace_.memory_used() < empty.keyspace.memory_used() + page_bytes);
}

bool JournaledWorld::holds(const Model& model, const Model& next) const {
  if (keyspace_.total_size() != model.size()) return false;
  const auto mirrors = keyspace_.mirrors().all();
  const bool may_have_begun = !next.by_transaction;
  if (mirrors != model.mirrors && !(may_have_begun && mirrors == next.mirrors)) return false;
  return std::ranges::all_of(model, [&](const auto& entry) {
    const auto& [key, known] = entry;
    const auto* const filter = sepal::test::filter_at(keyspace_, {key.first, key.second});
    const auto* const string = sepal::test::string_at(keyspace_, {key.first, key.second});
    if (known.string ? string == nullptr : filter == nullptr) return false;
    if (keyspace_.deadline({key.first, key.second}) != known.deadline) return false;
    if (known.string) return string->text() == *known.string;
    if (filter->item_count() < known.item_count) return false;
    const auto later = next.find(key);
    const bool may_have_more = may_have_begun && later != next.end();
    const std::uint64_t most = may_have_more ? later->second.item_count : known.item_count;
    return filter->item_count() <= std::max(most, known.item_count) &&
           std::ranges::all_of(known.items,
                               [&](std::uint32_t number) { return contains(*filter, item_of(number)); });
  });
}

}  // namespace sepal::test
