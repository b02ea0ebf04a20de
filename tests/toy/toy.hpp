// A toy kind of value: a set of at most 16 short byte strings that can forget. Its bytes go down as well as
// up, so nothing may be read of it while it changes. It proves that a kind is one folder and one row: this
// header, toy_commands.cpp and the row in small.hpp are all of it, and no file of the server names it.
#pragma once

#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "kinds/own_kinds.hpp"
#include "toy/small.hpp"

namespace sepal::toy {

inline constexpr std::uint8_t learned = 0;  // the numbers of a change: its bytes are the member
inline constexpr std::uint8_t forgotten = 1;
inline constexpr std::size_t members_max = 16;
inline constexpr std::size_t member_bytes_max = 255;

class Toy final : public value::SmallValue {
 public:
  static constexpr auto own_kind = static_cast<value::Kind>(std::size(value::own_kinds));  // the next
  static constexpr value::SmallFacts facts{
      .type_name = "toy", .word = "toy", .magic = "TOYS", .bytes_max = members_max * (1 + member_bytes_max)};

  Toy() : SmallValue(own_kind) {}
  [[nodiscard]] const std::set<std::string>& members() const { return members_; }
  [[nodiscard]] std::uint64_t item_count() const { return members_.size(); }
  [[nodiscard]] std::uint64_t byte_count() const { return sizeof(Toy) + members_.size() * member_bytes_max; }

  // For each member its length (1) and its bytes.
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const std::string& member : members_) text += static_cast<char>(member.size()) + member;
    return text;
  }
  bool take(std::string_view text) {
    while (!text.empty()) {
      const auto length = static_cast<std::uint8_t>(text.front());
      if (text.size() <= length || !apply(learned, text.substr(1, length))) return false;
      text.remove_prefix(1 + std::size_t{length});
    }
    return true;
  }
  bool apply(std::uint8_t what, std::string_view member) {
    if (what == forgotten) return members_.erase(std::string(member)) != 0;
    const bool fits = members_.size() < members_max && !member.empty() && member.size() <= member_bytes_max;
    return what == learned && fits && members_.emplace(member).second;
  }
  static std::string_view name_of(std::uint8_t what) { return what == learned ? "learned" : "forgotten"; }

 private:
  std::set<std::string> members_;
};

}  // namespace sepal::toy
