// The changes of strings in a JournaledWorld.
#include <sepal/value/image.hpp>
#include <sepal/writers/string_writer.hpp>

#include "journaled_values.hpp"
#include "journaled_world.hpp"
#include "support/catch.hpp"
#include "support/storage_fixture.hpp"
#include "support/values.hpp"

namespace sepal::test {
namespace {

constexpr std::size_t long_piece_bytes = keyspace::written_bytes_max + 5000;
constexpr std::uint64_t sparse_from = 256 << 10;

}  // namespace

// As the commands on strings do. A filter that is under the key is replaced, or stays.
void JournaledWorld::change_string(std::mt19937_64& random, Model& model, bool in_transaction) {
  const std::string name = key_names[below(random, key_names.size())];
  StringChange change{.key = {.database = below(random, databases_used), .key = name},
                      .before = {},
                      .in_transaction = in_transaction};
  const auto* const found = sepal::test::string_at(keyspace_, change.key);
  const std::uint32_t kind = below(random, 10);
  if (found == nullptr && keyspace_.find(change.key) != nullptr) {
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
  const std::string source = key_names[below(random, key_names.size())];
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

}  // namespace sepal::test
