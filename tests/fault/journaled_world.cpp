#include "journaled_world.hpp"

#include <sepal/bloom/filter/image.hpp>
#include <sepal/storage/generation/snapshot.hpp>
#include <sepal/writers/bloom_writer.hpp>
#include <sepal/writers/cuckoo_writer.hpp>
#include <sepal/writers/redis_cuckoo_writer.hpp>
#include <sepal/writers/string_writer.hpp>

#include <chrono>

#include "journaled_values.hpp"
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
// A frame is at most an eighth of a segment, and a piece of a long string has 64 KiB.
constexpr std::uint64_t segment_bytes_of_longer = 1 << 20;
constexpr keyspace::KeyspaceOptions small_filters{
    .memory_max = std::uint64_t{1} << 33, .capacity = 8, .seed = 7};
const storage::Path data = "data";
// The key of a filter that rarely changes between saves, and that is large enough for a file that saves link.
constexpr const char* still_key = "still";
constexpr std::uint64_t still_capacity = 3000;
constexpr std::size_t key_bytes_max = 16;
// Bounds loops that wait for a few rounds of the journal's work. They need fewer tries.
constexpr int tries_max = 10;
constexpr std::uint32_t item_numbers = 5000;
constexpr std::uint32_t batch_items_max = 12;
// Most transactions are short. Some fill several frames of a segment of this size, and go on in the next.
constexpr std::uint32_t long_transaction_changes = 24;
constexpr std::uint32_t short_transaction_changes_max = 4;

std::string item_of(std::uint32_t number) {
  return "item:" + std::to_string(number);
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
    // The last change before the crash may be there or not, and has told nothing.
    if (known.window)
      known.window->count = value::as<bloom::WindowFilter>(found).item_count(
          WallTime(std::chrono::milliseconds(known.window->clock)));
  }
  model.mirrors = keyspace_.mirrors().all();
  models_ = {std::move(model)};
}

Model JournaledWorld::outline() const {
  Model model;
  for (std::uint32_t database = 0; database < databases_used; ++database)
    keyspace_.for_each_key(database, [&](std::string_view name) {
      const keyspace::DatabaseKey key{.database = database, .key = name};
      const value::Value& found = *keyspace_.find(key);
      const auto* const string = value::as<strings::String>(&found);
      ModelFilter& known = model[{database, std::string(name)}];
      known = {.item_count = value::row_of(found).item_count(found),
               .items = {},
               .deadline = keyspace_.deadline(key),
               .string = string != nullptr ? std::optional(string->text()) : std::nullopt};
      const auto* const window = value::as<bloom::WindowFilter>(&found);
      if (window != nullptr) known.window = window_model_of(*window);
      if (string == nullptr && window == nullptr && value::as<bloom::Filter>(&found) == nullptr)
        known.cuckoo = cuckoo_model_of(found);
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
  const std::uint64_t of_cuckoo = std::max(
      sepal::writers::record_bytes_of_cuckoo(key_bytes_max, cuckoo_batch_items_max),
      sepal::writers::record_bytes_of_redis_chunk(
          key_bytes_max, strings_ == Strings::longer ? 2 * keyspace::written_bytes_max : shorter_bytes_max));
  const std::uint64_t of_remade = 2 * (keyspace::record_bytes_max + key_bytes_max) + remade_bytes_max;
  const std::uint64_t bytes = changes * std::max({adds + mirrored, strings, of_cuckoo, of_remade});
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
  } else if (below(random, 10) == 0) {
    remake(random, model);
  } else if (below(random, kind.in_transaction ? 12 : 6) == 0) {
    change_key(random, model);
  } else if (kind.mirrors && below(random, 8) == 0) {
    change_mirror(random, model);
  } else if (below(random, 12) < strings_of_twelve) {
    change_string(random, model, kind.in_transaction);
  } else if (const std::uint32_t of_four = below(random, 4); of_four == 0) {
    change_window(random, model);
  } else if (of_four == 1) {
    change_cuckoo(random, model, kind.in_transaction);
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

// The filter, its deadline and its items are one piece of the record, also `inside` the shared gate.
bloom::Filter* JournaledWorld::create(std::mt19937_64& random, keyspace::DatabaseKey key,
                                      std::uint64_t capacity, std::span<const std::string_view> items,
                                      bool inside, std::vector<bloom::Filter::AddOutcome>& outcomes) {
  auto& log = journal_->log(0);
  Limbo at_once(nullptr);
  keyspace::Mutator creating(keyspace_, log.recording() ? &log : nullptr, inside ? &at_once : nullptr);
  const sepal::writers::Creation creation{.options = {.error_rate = 0.001,
                                                      .capacity = capacity,
                                                      .expansion = 1 + below(random, 2),
                                                      .seed = small_filters.seed},
                                          .deadline = static_cast<keyspace::Deadline>(below(random, 3)),
                                          .items = items,
                                          .now = {}};
  bloom::Filter* const filter = *sepal::writers::create(creating, key, creation, outcomes);
  if (inside && log.recording()) log.append();
  if (inside) static_cast<void>(log.seal_record(true));
  return filter;
}

void JournaledWorld::add(std::mt19937_64& random, Model& model, bool in_transaction) {
  const bool still = models_.size() == 1 || (!in_transaction && below(random, 90) == 0);
  const std::string key = still ? still_key : key_names[below(random, key_names.size())];
  const std::uint32_t database = below(random, databases_used);
  std::vector<std::uint32_t> numbers(1 + below(random, batch_items_max));
  for (auto& number : numbers) number = below(random, item_numbers);
  std::vector<std::string> texts;
  for (const auto number : numbers) texts.push_back(item_of(number));
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  bloom::Filter* filter = sepal::test::filter_at(keyspace_, {database, key});
  if (filter == nullptr && keyspace_.find({database, key}) != nullptr) return;
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
    std::vector<bloom::Filter::AddOutcome> outcomes;
    if (filter == nullptr) {
      const std::uint64_t capacity = still ? still_capacity : small_filters.capacity;
      const bool inside = !in_transaction && keyspace_.mirrors().empty() && below(random, 2) == 0;
      filter = create(random, {database, key}, capacity, items, inside, outcomes);
      model[{database, key}].deadline = keyspace_.deadline({database, key});
    } else if (shares) {
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
  const std::uint32_t database = below(random, databases_used);
  const std::string from = key_names[below(random, key_names.size())];
  const std::string to = key_names[below(random, key_names.size())];
  auto& log = journal_->log(0);
  keyspace::Mutator mutator(keyspace_, log.recording() ? &log : nullptr);
  const bloom::Filter* const source = sepal::test::filter_at(keyspace_, {database, from});
  if (source == nullptr || (keyspace_.find({database, to}) != nullptr &&
                            sepal::test::filter_at(keyspace_, {database, to}) == nullptr))
    return;
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
  const std::uint32_t database = below(random, databases_used);
  const std::string from = key_names[below(random, key_names.size())];
  const std::string to = key_names[below(random, key_names.size())];
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
    const std::uint32_t other = below(random, databases_used);
    mutator.swap_databases(database, other);
    swap_databases(model, database, other);
  } else if (kind == 3) {
    const std::uint32_t other = below(random, databases_used);
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

// A Bloom filter, Sepal's or RedisBloom's, with some items.
value::ValuePtr JournaledWorld::new_bloom(std::mt19937_64& random, ModelFilter& known) const {
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
  return made;
}

// Adopts a new Bloom filter, or a copy of a filter that deletes, in a file or in the record, as the daemon
// does.
void JournaledWorld::adopt(std::mt19937_64& random, Model& model) {
  const keyspace::DatabaseKey key{.database = below(random, databases_used),
                                  .key = key_names[below(random, key_names.size())]};
  ModelFilter known{.item_count = 0, .items = {}, .deadline = below(random, 3)};
  value::ValuePtr made;
  if (below(random, 2) == 0) made = copy_of_cuckoo(random, model, known);
  if (made == nullptr) made = new_bloom(random, known);
  auto& log = journal_->log(0);
  keyspace::ImageFile file;
  const bool in_record = below(random, 2) == 0 && value::image_bytes(*made) <= shorter_bytes_max;
  if (!in_record && log.recording()) {
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
  const auto sync_what_was_read = [&]() -> Result<void> {
    const std::uint64_t position = journal_->position();
    if (position <= snapshot.journal_position) return {};
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
    const auto later = next.find(key);
    return holds_key({key.first, key.second}, known,
                     may_have_begun && later != next.end() ? &later->second : nullptr);
  });
}

bool JournaledWorld::holds_key(keyspace::DatabaseKey key, const ModelFilter& known,
                               const ModelFilter* next) const {
  const value::Value* const value = keyspace_.find(key);
  if (value == nullptr || keyspace_.deadline(key) != known.deadline) return false;
  const auto* const filter = value::as<bloom::Filter>(value);
  const auto* const string = value::as<strings::String>(value);
  if (known.string) return string != nullptr && string->text() == *known.string;
  const auto* const window = value::as<bloom::WindowFilter>(value);
  if (known.window) {
    return window != nullptr &&
           is_like(*window, *known.window, next != nullptr && next->window ? &*next->window : nullptr);
  }
  if (known.cuckoo)
    return filter == nullptr && string == nullptr && window == nullptr &&
           is_like(*value, *known.cuckoo, next != nullptr && next->cuckoo ? &*next->cuckoo : nullptr);
  if (filter == nullptr || filter->item_count() < known.item_count) return false;
  const std::uint64_t most = next != nullptr ? next->item_count : known.item_count;
  return filter->item_count() <= std::max(most, known.item_count) &&
         std::ranges::all_of(known.items,
                             [&](std::uint32_t number) { return contains(*filter, item_of(number)); });
}

}  // namespace sepal::test
