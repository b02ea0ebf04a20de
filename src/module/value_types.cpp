// value/module_type.hpp describes what a value of this module is in an RDB file.
#include "module/value_types.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>
#include <sepal/cuckoo/kind/module_type.hpp>
#include <sepal/value/image.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/value/module_type.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "module/room.hpp"

namespace sepal::module {
namespace {

using value::KindRow;
using value::module_piece_bytes;
using value::ModuleType;
using value::Value;
using value::ValuePtr;

// The server frees a value in its background thread if the effort is above 64.
constexpr std::uint64_t bytes_of_one_effort = std::uint64_t{64} << 10;
// The server does not say for which type it loads a value, so each kind has a function of its own
// (load_functions).
constexpr std::size_t kinds_max = 16;

// By kind; null: the kind has none. Several kinds may be of one type.
std::array<RedisModuleType*, kinds_max> types{};

const Value& value_of(const void* value) {
  return *static_cast<const Value*>(value);
}

const ModuleType* type_of(const KindRow& row) {
  return row.payload == nullptr ? nullptr : row.payload->type;
}

// What a value may have that another server has admitted: as many layers as RedisBloom may have made. A
// server whose file has a value that is refused does not start.
value::Limits admitted(const KindRow& row, std::uint64_t bytes_max) {
  const bool cuckoo = type_of(row) == &cuckoo::module_type;
  return {.bytes_max = bytes_max, .layers_max = cuckoo ? cuckoo::redis_layers_max : bloom::filter_layers_max};
}

std::span<const char> chars(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Calls step(offset, count) for all pieces of a body of this length, until it returns false.
template <class Step>
void in_pieces(std::uint64_t body_bytes, const Step& step) {
  for (std::uint64_t offset = 0; offset < body_bytes; offset += module_piece_bytes)
    if (!step(offset, static_cast<std::size_t>(std::min(module_piece_bytes, body_bytes - offset)))) return;
}

// --- reading ----------------------------------------------------------------------------------------------

// A string that the server read. Its owner is this module.
class Loaded final : public value::RdbFields::String {
 public:
  explicit Loaded(RedisModuleIO* io) : text_(api.LoadStringBuffer(io, &length_)) {}
  ~Loaded() override {
    if (text_ != nullptr) api.Free(text_);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  [[nodiscard]] bool is_there() const { return text_ != nullptr; }
  [[nodiscard]] std::span<const std::byte> bytes() const override {
    return std::as_bytes(std::span<const char>(text_, text_ == nullptr ? 0 : length_));
  }

 private:
  std::size_t length_ = 0;
  char* text_;
};

class Fields final : public value::RdbFields {
 public:
  explicit Fields(RedisModuleIO* io) : io_(io) {}

  std::uint64_t number() override { return api.LoadUnsigned(io_); }
  double real() override { return api.LoadDouble(io_); }
  std::unique_ptr<String> string() override {
    auto string = std::make_unique<Loaded>(io_);
    lacks_string_ = lacks_string_ || !string->is_there();
    return string;
  }
  [[nodiscard]] bool failed() const override { return lacks_string_ || api.IsIOError(io_) != 0; }

 private:
  RedisModuleIO* io_;
  bool lacks_string_ = false;
};

Error cut_short(const KindRow& row) {
  return fail(Errc::damaged, "the data of a " + std::string(row.word) + " is cut short");
}

Result<void> load_body(const KindRow& row, Fields& fields, Value& into, std::uint64_t body_bytes) {
  Result<void> outcome;
  in_pieces(body_bytes, [&](std::uint64_t offset, std::size_t count) {
    // An empty string stands for a piece of zeros (save_all), and the new value has zeros there.
    const auto piece = fields.string();
    if (fields.failed()) {
      outcome = cut_short(row);
    } else if (piece->bytes().size() == count) {
      row.fill_body(into, offset, piece->bytes());
    } else if (!piece->bytes().empty()) {
      outcome = fail(Errc::damaged, "a piece of a " + std::string(row.word) + " is of another length");
    }
    return outcome.ok();
  });
  if (outcome && row.complete != nullptr) return row.complete(into);
  return outcome;
}

// `first` is the row for which the type was created. The head says which of the type's kinds the value is.
Result<ValuePtr> load_own(const KindRow& first, Fields& fields, const value::LimitsOfNew& limits_of) {
  const auto head = fields.string();
  if (fields.failed()) return cut_short(first);
  const KindRow* const found = value::row_of_image(head->bytes());
  if (found == nullptr || type_of(*found) != type_of(first))
    return fail(Errc::damaged, "this is not the head of a " + std::string(first.word));
  const KindRow& row = *found;
  // The head is checked before it sizes an allocation: RESTORE takes bytes from any client.
  const auto shape = row.read_head(head->bytes(), admitted(row, no_limits.bytes_max).layers_max);
  if (!shape) return shape.error();
  if (shape->head_bytes != head->bytes().size())
    return fail(Errc::damaged, "this is not the head of a " + std::string(row.word));
  auto made = row.make(head->bytes(), limits_of(shape->body_bytes), value::FilledBy::load);
  if (!made) return made;
  if (auto filled = load_body(row, fields, **made, shape->body_bytes); !filled) return filled.error();
  return made;
}

void* load_kind(std::size_t kind, RedisModuleIO* io, int encoding_version) {
  const KindRow& row = *value::kinds[kind];
  const ModuleType& type = *type_of(row);
  try {
    const value::LimitsOfNew limits_of = [io, &row](std::uint64_t bytes) {
      return admitted(row, limits_of_new(api.GetContextFromIO(io), bytes).bytes_max);
    };
    Fields fields(io);
    auto made = encoding_version == type.encoding_version
                    ? load_own(row, fields, limits_of)
                    : type.read_foreign(fields, encoding_version, limits_of);
    // The server owns the reference from here on, and gives it back in free_value().
    if (made) return (*made).detach();
    api.LogIOError(io, "warning", "sepal: %s", made.error().detail.c_str());
  } catch (const std::exception& failure) {
    api.LogIOError(io, "warning", "sepal: a %s cannot be read: %s", std::string(row.word).c_str(),
                   failure.what());
  }
  return nullptr;
}

template <std::size_t... kind>
constexpr auto load_functions_of(std::index_sequence<kind...> /*kinds*/) {
  return std::array<void* (*)(RedisModuleIO*, int), sizeof...(kind)>{
      [](RedisModuleIO* io, int encoding_version) { return load_kind(kind, io, encoding_version); }...};
}
constexpr auto load_functions = load_functions_of(std::make_index_sequence<kinds_max>());

// --- writing ----------------------------------------------------------------------------------------------

// Calls take(bytes) for the head of the value's image, and then for the body, piece after piece. Makes no
// further pointer to the value: the child that saves would copy the page on which their number stands.
template <class Take>
void give_image(const Value& saved, const Take& take) {
  const KindRow& row = row_of(saved);
  std::vector<std::uint64_t> numbers;
  const auto still = row.freeze(saved, numbers);
  const value::FrozenView view{.value = saved, .numbers = numbers, .still = still.get()};
  std::vector<std::byte> head(row.head_bytes(view));
  row.encode_head(view, head);
  take(std::span<const std::byte>(head));
  const std::uint64_t body_bytes = row.body_bytes(view);
  // One buffer of a piece serves all pieces, so a save takes no second copy of the value.
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(module_piece_bytes, body_bytes)));
  in_pieces(body_bytes, [&](std::uint64_t offset, std::size_t count) {
    const auto part = std::span(piece).first(count);
    row.copy_body(view, offset, part);
    take(std::span<const std::byte>(part));
    return true;
  });
}

void save_all(RedisModuleIO* io, const Value& saved) {
  give_image(saved, [&](std::span<const std::byte> bytes) {
    api.SaveStringBuffer(io, chars(bytes).data(), value::all_zero(bytes) ? 0 : bytes.size());
  });
}

// The functions that write have no result: the server would take a file that lacks the value for whole. So
// the process ends, child or server, and the last whole file stays.
[[noreturn]] void end_process(RedisModuleIO* io, const KindRow& row, const std::exception& failure) {
  api.LogIOError(io, "warning", "sepal: a %s cannot be written, so this process ends: %s",
                 std::string(row.word).c_str(), failure.what());
  _exit(1);
}

void save(RedisModuleIO* io, void* value) {
  try {
    save_all(io, value_of(value));
  } catch (const std::exception& failure) {
    end_process(io, row_of(value_of(value)), failure);
  }
}

void rewrite(RedisModuleIO* io, RedisModuleString* key, void* value) {
  const KindRow& row = row_of(value_of(value));
  try {
    const auto emit = [&](const char* command, std::uint64_t iterator, std::span<const std::byte> piece) {
      api.EmitAOF(io, command, "slb", key, static_cast<long long>(iterator), chars(piece).data(),
                  piece.size());
    };
    type_of(row)->give_pieces(value_of(value), emit);
  } catch (const std::exception& failure) {
    end_process(io, row, failure);
  }
}

// --- the rest ---------------------------------------------------------------------------------------------

std::size_t memory_usage(const void* value) {
  return row_of(value_of(value)).byte_count(value_of(value));
}

void free_value(void* value) {
  // Takes over the server's reference, and drops it. The server may call this in its background thread.
  const ValuePtr last(static_cast<Value*>(value), false);
}

std::size_t free_effort(RedisModuleString* /*key*/, const void* value) {
  return static_cast<std::size_t>(memory_usage(value) / bytes_of_one_effort) + 1;
}

void* copy(RedisModuleString* /*from*/, RedisModuleString* /*to*/, const void* value) {
  try {
    // This pointer adds a reference of its own, so the server keeps the one of `value`.
    const value::Frozen frozen(ValuePtr(const_cast<Value*>(&value_of(value))));
    auto made = frozen.copy(admitted(row_of(value_of(value)), no_limits.bytes_max), {});
    if (made) return (*made).detach();
  } catch (const std::exception&) {
    // The server answers that it could not copy the value.
  }
  return nullptr;
}

// DEBUG DIGEST-VALUE answers it: equal for values of the same image.
void digest(RedisModuleDigest* into, void* value) {
  try {
    give_image(value_of(value), [&](std::span<const std::byte> bytes) {
      api.DigestAddStringBuffer(into, chars(bytes).data(), bytes.size());
    });
    api.DigestEndSequence(into);
  } catch (const std::exception&) {
    // The server does not learn of an error here, either. The digest then equals that of no other server.
  }
}

}  // namespace

bool create_value_types(RedisModuleCtx* context) {
  SEPAL_ASSERT(value::kinds.size() <= kinds_max, "each kind has a function that loads its values");
  for (std::size_t kind = 0; kind < value::kinds.size(); ++kind) {
    const ModuleType* const type = type_of(*value::kinds[kind]);
    if (type == nullptr) continue;
    const auto same =
        std::ranges::find(value::kinds.first(kind), type, [](const KindRow* row) { return type_of(*row); });
    const auto first = static_cast<std::size_t>(same - value::kinds.begin());
    if (first < kind) {
      types[kind] = types[first];
      continue;
    }
    TypeMethods methods;
    methods.rdb_load = load_functions[kind];
    methods.rdb_save = save;
    methods.aof_rewrite = rewrite;
    methods.mem_usage = memory_usage;
    methods.digest = digest;
    methods.free = free_value;
    methods.free_effort = free_effort;
    methods.copy = copy;
    types[kind] = api.CreateDataType(context, type->name, type->encoding_version, &methods);
    if (types[kind] == nullptr) return false;
  }
  return true;
}

Value* value_in(RedisModuleKey* key) {
  const RedisModuleType* const type = api.ModuleTypeGetType(key);
  if (type == nullptr || std::ranges::find(types, type) == types.end()) return nullptr;
  return static_cast<Value*>(api.ModuleTypeGetValue(key));
}

void put_value(RedisModuleKey* key, ValuePtr value) {
  RedisModuleType* const type = types[static_cast<std::size_t>(value->kind())];
  SEPAL_ASSERT(type != nullptr, "a value is put under a key whose kind the server does not know");
  api.ModuleTypeSetValue(key, type, value.detach());
}

}  // namespace sepal::module
