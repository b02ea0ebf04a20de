// What a kind is to a Redis or Valkey server that has loaded sepal.so: a type of that module. The module
// registers one for each row whose payload has it, and does the rest by the row.
//
//     a value in the server's RDB files     the head of its image (string); the body in strings of
//                                           module_piece_bytes, of which the last has what is left, and an
//                                           empty one stands for zeros
//
// All functions are called in the server's main thread, or in its child that saves.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/value/value.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace sepal::value {

inline constexpr std::uint64_t module_piece_bytes = std::uint64_t{1} << 20;

// The fields of a value that the server reads from a file or a payload, in their order. Once one is missing,
// failed() says so, and what is read is no field.
class RdbFields {
 public:
  class String {
   public:
    virtual ~String() = default;
    [[nodiscard]] virtual std::span<const std::byte> bytes() const = 0;
  };

  virtual ~RdbFields() = default;
  virtual std::uint64_t number() = 0;
  virtual double real() = 0;
  // Its memory is there until it ends. Not null; without bytes where there is none.
  virtual std::unique_ptr<String> string() = 0;
  [[nodiscard]] virtual bool failed() const = 0;
};

// What a value with a body of so many bytes may take. `layers_max` is the same for all.
using LimitsOfNew = std::function<Limits(std::uint64_t body_bytes)>;

// A request that repeats a part of a value: command, key, iterator and piece.
using EmitPiece =
    std::function<void(const char* command, std::uint64_t iterator, std::span<const std::byte> piece)>;

struct ModuleType {
  const char* name;      // nine letters
  int encoding_version;  // of what the module saves
  // Reads what another program has saved. Errors: unsupported_version (of no program that is known), damaged,
  // out_of_range, layer_limit, too_large, out_of_memory.
  Result<ValuePtr> (*read_foreign)(RdbFields& fields, int encoding_version, const LimitsOfNew& limits_of);
  // Gives the requests that make the value again, for the AOF.
  void (*give_pieces)(const Value& value, const EmitPiece& emit);
};

}  // namespace sepal::value
