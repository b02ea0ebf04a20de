// Random changes of strings against texts: what is read, the account of memory, and a start from a generation
// whose bits a save has read while the strings changed.
#include <sepal/base/gate.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/strings/kind.hpp>
#include <sepal/value/image.hpp>
#include <sepal/writers/string_writer.hpp>

#include "support/catch.hpp"
#include "support/journal_files.hpp"
#include "support/keys_made.hpp"
#include "support/storage_fixture.hpp"
#include "support/values.hpp"

namespace string_property {

namespace {

using namespace sepal;
using keyspace::DatabaseKey;
using keyspace::Deadline;
using keyspace::Keyspace;
using sepal::strings::String;
using sepal::strings::StringPtr;

constexpr std::uint64_t segment_bytes = std::uint64_t{1} << 22;
constexpr std::uint64_t sparse_from = std::uint64_t{256} << 10;
constexpr std::uint64_t length_max = 3 * sparse_from;
constexpr int changes_of_workload = 120;

struct ModelString {
  std::string bytes;
  Deadline deadline = keyspace::no_deadline;
};
using Model = std::map<std::string, ModelString>;

bool model_bit(const std::string& bytes, std::uint64_t position) {
  const std::uint64_t byte = position / 8;
  return byte < bytes.size() && (static_cast<unsigned char>(bytes[byte]) >> (7 - position % 8) & 1) != 0;
}

void check_same(const Keyspace& keys, const Model& model) {
  REQUIRE(keys.total_size() == model.size());
  for (const auto& [name, expected] : model) {
    INFO("key " << name);
    const String* const found = sepal::test::string_at(keys, {.database = 0, .key = name});
    REQUIRE(found != nullptr);
    REQUIRE(found->length() == expected.bytes.size());
    REQUIRE((found->text() == expected.bytes));
    REQUIRE(keys.deadline({.database = 0, .key = name}) == expected.deadline);
  }
}

// A page at least would be missing or left over in an account that is kept wrong.
void check_account(Keyspace& keys, const Model& model) {
  constexpr std::uint64_t page_bytes = 4096;
  for (const auto& [name, string] : model) REQUIRE(keys.remove({.database = 0, .key = name}));
  test::Filters empty;
  test::make_all_tables(keys);
  test::make_all_tables(empty.keyspace);
  REQUIRE(keys.memory_used() < empty.keyspace.memory_used() + page_bytes);
}

// A generation that is being written: the heads of its strings, and of their bits what was read so far.
class Save {
 public:
  Save(const Keyspace& keys, std::uint64_t position) : position_(position) {
    for (const keyspace::CutEntry& entry : keys.cut())
      strings_.push_back({.key = std::string(entry.key),
                          .string = &value::as<String>(*entry.value),
                          .deadline = entry.deadline});
  }
  // Takes the head of a string, or reads a piece of its bits. `random` says of which string.
  void step(std::mt19937_64& random) {
    if (!strings_.empty()) strings_[random() % strings_.size()].step();
  }
  // Starts from this generation.
  void load(Keyspace& keys, test::JournalFiles& journal) {
    storage::ReplayStart start;
    start.cut = position_;
    for (Saved& saved : strings_) {
      while (!saved.done()) saved.step();
      auto made = value::value_of(saved.image, test::roomy);
      REQUIRE(made);
      REQUIRE(keys.put({.database = 0, .key = saved.key}, *made, saved.deadline));
    }
    test::SimulatedDisk disk;
    journal.put(disk, "data");
    Gate gate(1);
    const auto replayed = storage::replay_journal(disk, "data", keys, gate, std::move(start), {});
    INFO((replayed ? std::string() : replayed.error().detail));
    REQUIRE(replayed);
    REQUIRE(replayed->position == journal.position());
  }

 private:
  struct Saved {
    std::string key;
    StringPtr string;
    Deadline deadline = keyspace::no_deadline;
    std::vector<std::byte> image{};
    std::size_t bits_at = 0;
    std::size_t bits_read = 0;

    [[nodiscard]] bool done() const { return !image.empty() && bits_at + bits_read == image.size(); }
    void step() {
      if (image.empty()) {
        image = value::Frozen(string).head();
        bits_at = image.size();
        image.resize(bits_at + string->capacity());
      } else if (!done()) {
        const std::size_t piece =
            std::min<std::size_t>(std::size_t{40} << 10, image.size() - bits_at - bits_read);
        string->read_words(bits_read, std::span(image).subspan(bits_at + bits_read, piece));
        bits_read += piece;
      }
    }
  };
  std::uint64_t position_;
  std::vector<Saved> strings_;
};

// Each record has a frame of its own.
class Log final : public keyspace::MutationLog {
 public:
  explicit Log(test::JournalFiles& journal) : journal_(journal) {}
  [[nodiscard]] bool recording() const override { return true; }
  void begin_add() override { journal_.begin_add(); }
  void added(DatabaseKey key, std::span<const Fingerprint> positions) override {
    journal_.added(key, positions);
    journal_.end_frame();
  }
  void added_some(DatabaseKey key, std::span<const Fingerprint> positions) override { added(key, positions); }
  void wait_for_adds() override {}
  void gather(const keyspace::Mutation& change) override { record(change); }
  void gathered_all(const value::Value&) override {}
  void append() override {}
  void append_others() override {}
  void gather_added(keyspace::DatabaseKey key, std::span<const Fingerprint> fingerprints) override {
    begin_add();
    added(key, fingerprints);
  }
  void record(const keyspace::Mutation& change) override {
    journal_.record(change);
    journal_.end_frame();
  }

 private:
  test::JournalFiles& journal_;
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}

  void change() {
    const std::string key = any_key();
    const std::uint32_t kind = below(20);
    if (kind < 6) {
      set_bit(key);
    } else if (kind < 9) {
      write(key, any_offset(), any_bytes());
    } else if (kind < 11) {
      const auto found = model_.find(key);
      write(key, found == model_.end() ? 0 : found->second.bytes.size(), any_bytes());
    } else if (kind < 13) {
      put(key, any_bytes());
    } else if (kind < 15) {
      copy(key, any_key());
    } else {
      change_key(key, kind);
    }
  }
  void look() const {
    for (const auto& [name, expected] : model_) look_at(name, expected.bytes);
  }

  Keyspace& keys() { return filters_.keyspace; }
  [[nodiscard]] const Model& model() const { return model_; }
  test::JournalFiles& journal() { return journal_; }
  std::mt19937_64& random() { return random_; }

 private:
  [[nodiscard]] std::uint32_t below(std::uint64_t bound) const {
    return static_cast<std::uint32_t>(random_() % bound);
  }
  [[nodiscard]] std::string any_key() const { return std::string(1, static_cast<char>('a' + below(4))); }
  // Often near a boundary: of a word, of a page, of the length from which strings are sparse.
  [[nodiscard]] std::uint64_t any_offset() const {
    constexpr std::uint64_t boundaries[] = {0, 8, 64, 4096, 8192, sparse_from, 2 * sparse_from};
    const std::uint64_t boundary = boundaries[below(std::size(boundaries))];
    const std::uint64_t offset = boundary + below(12);
    return offset - std::min<std::uint64_t>(offset, 6);
  }
  [[nodiscard]] std::string any_bytes() const {
    std::uint64_t length = 1 + below(20);
    if (below(4) == 0) length = 4090 + below(12);
    if (below(16) == 0) length = sparse_from - 3 + below(6);
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = below(3) == 0 ? '\0' : static_cast<char>(random_());
    // Pages of zeros, too: a save leaves them out.
    if (below(4) == 0) std::ranges::fill(bytes, '\0');
    return bytes;
  }

  void set_bit(const std::string& name) {
    const DatabaseKey key{.database = 0, .key = name};
    const std::uint64_t position = 8 * any_offset() + below(8);
    const bool was_set = model_.contains(name) && model_bit(model_[name].bytes, position);
    if (String* const found = sepal::test::string_at(keys(), key); found != nullptr && below(3) != 0) {
      const auto answer = sepal::writers::try_set_bit(mutator_, key, *found, position);
      if (answer) {
        REQUIRE(*answer == was_set);
        std::string& bytes = model_[name].bytes;
        bytes[position / 8] = static_cast<char>(bytes[position / 8] | 0x80 >> position % 8);
        return;
      }
    }
    // As SETBIT to 0 and to 1 where the gate has to be closed.
    std::string byte(1, '\0');
    if (model_.contains(name) && position / 8 < model_[name].bytes.size())
      byte[0] = model_[name].bytes[position / 8];
    const int mask = 0x80 >> position % 8;
    byte[0] = static_cast<char>(below(2) == 0 ? byte[0] | mask : byte[0] & ~mask);
    write(name, position / 8, byte);
  }
  void write(const std::string& name, std::uint64_t offset, const std::string& bytes) {
    if (offset + bytes.size() > length_max) return;
    REQUIRE(sepal::writers::write(mutator_, {.database = 0, .key = name}, offset,
                                  std::as_bytes(std::span(bytes))));
    std::string& all = model_[name].bytes;
    all.resize(std::max<std::size_t>(all.size(), offset + bytes.size()));
    all.replace(offset, bytes.size(), bytes);
  }
  void put(const std::string& name, const std::string& bytes) {
    auto made = String::of(bytes, test::roomy);
    REQUIRE(made);
    const Deadline deadline = below(3) == 0 ? 1000 + below(3) : keyspace::no_deadline;
    REQUIRE(sepal::writers::put_string(mutator_, {.database = 0, .key = name}, *made, deadline));
    model_[name] = {.bytes = bytes, .deadline = deadline};
  }
  // Through the payload of DUMP and RESTORE, or through an image, as COPY does.
  void copy(const std::string& from, const std::string& to) {
    String* const source = sepal::test::string_at(keys(), {.database = 0, .key = from});
    if (source == nullptr) return;
    const value::Payload& payload = *sepal::strings::string_row.payload;
    const std::string dump = payload.write(value::Frozen(StringPtr(source)).view(), {})->front();
    const auto made = below(2) == 0 ? payload.read(std::as_bytes(std::span(dump)), test::roomy, {})
                                    : value::value_of(value::image_of(*source), test::roomy);
    REQUIRE(made);
    const Deadline deadline = model_[from].deadline;
    REQUIRE(sepal::writers::put_string(mutator_, {.database = 0, .key = to}, &value::as<String>(**made),
                                       deadline));
    model_[to] = ModelString(model_[from]);
  }
  void change_key(const std::string& name, std::uint32_t kind) {
    const DatabaseKey key{.database = 0, .key = name};
    const std::string target = any_key();
    if (kind == 15) {
      REQUIRE(mutator_.remove(key) == (model_.erase(name) == 1));
    } else if (kind == 16) {
      const bool expired = mutator_.expire(key, WallTime(std::chrono::milliseconds(1001)));
      const auto found = model_.find(name);
      REQUIRE(expired == (found != model_.end() && found->second.deadline != keyspace::no_deadline &&
                          found->second.deadline <= 1001));
      if (expired) model_.erase(name);
    } else if (kind == 17) {
      const Deadline deadline = below(2) == 0 ? 1000 + below(3) : keyspace::no_deadline;
      static_cast<void>(mutator_.set_deadline(key, deadline));
      if (model_.contains(name)) model_[name].deadline = deadline;
    } else if (kind == 18 && model_.contains(name) && name != target) {
      REQUIRE(mutator_.rename(0, name, target));
      model_[target] = std::move(model_[name]);
      model_.erase(name);
    } else if (kind == 19 && below(8) == 0) {
      mutator_.flush(0);
      model_.clear();
    }
  }

  // Compares what commands on bits look for with what a loop finds.
  void look_at(const std::string& name, const std::string& bytes) const {
    INFO("key " << name);
    const String& string = *sepal::test::string_at(filters_.keyspace, {.database = 0, .key = name});
    const std::uint64_t bits = 8 * bytes.size();
    const std::uint64_t begin = below(bits + 1);
    const std::uint64_t end = std::min<std::uint64_t>(bits, begin + below(below(2) == 0 ? 200 : 70'000));
    std::uint64_t set = 0;
    std::optional<std::uint64_t> first[2];
    for (std::uint64_t at = begin; at < end; ++at) {
      const bool is_set = model_bit(bytes, at);
      set += is_set ? 1 : 0;
      if (!first[is_set]) first[is_set] = at;
    }
    REQUIRE(string.count({.begin = begin, .end = end}) == set);
    REQUIRE(string.find(true, {.begin = begin, .end = end}) == first[1]);
    REQUIRE(string.find(false, {.begin = begin, .end = end}) == first[0]);
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t position = below(bits + 100);
      REQUIRE(string.bit(position) == model_bit(bytes, position));
    }
    const std::uint64_t offset = below(bytes.size() + 1);
    REQUIRE((string.text(offset, 5000) == bytes.substr(offset, 5000)));
  }

  mutable std::mt19937_64 random_;
  test::Filters filters_;
  test::JournalFiles journal_{0, segment_bytes};
  Log log_{journal_};
  keyspace::Mutator mutator_{filters_.keyspace, &log_};
  Model model_;
};

}  // namespace

TEST_CASE("strings are what their changes make of texts, and a start from any save makes them again") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 40)));
  CAPTURE(seed);
  World world(seed);
  const std::size_t saves_begin = world.random()() % changes_of_workload;
  std::vector<Save> saves;
  for (std::size_t change = 0; change < changes_of_workload; ++change) {
    // Two saves of one cut read the bits at different times.
    if (change == saves_begin)
      for (int i = 0; i < 2; ++i) saves.emplace_back(world.keys(), world.journal().position());
    CAPTURE(change);
    world.change();
    check_same(world.keys(), world.model());
    world.look();
    for (Save& save : saves) save.step(world.random());
  }
  for (Save& save : saves) {
    test::Filters started;
    save.load(started.keyspace, world.journal());
    check_same(started.keyspace, world.model());
    check_account(started.keyspace, world.model());
  }
  check_account(world.keys(), world.model());
}

}  // namespace string_property
