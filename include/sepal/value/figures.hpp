// The figures of a value by name. Each kind tells them in one list (KindRow::tell), which `sepal inspect`
// and CF.STATS render. The status page and the metrics sepal_filter_* know filters alone, and do not ask for
// it.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace sepal::value {

// The seed of a filter's hash. A client that knows it can find items that collide. So files tell it, and no
// reply to a client but a dump does (docs/security.md, "What the seed protects").
struct Seed {
  std::uint64_t number = 0;
};

struct Figure {
  std::string_view name;  // lower case, words joined by `_`; static text
  std::variant<std::uint64_t, double, std::string_view, Seed> value;  // a text is static as well
};

// Confined.
struct Figures {
  // The first is what the value counts: items, bytes.
  std::vector<Figure> figures;
  // Its parts, where it has some: the layers of a filter, oldest first. `part` is what one is called.
  std::string_view part;
  std::vector<std::vector<Figure>> parts;

  void number(std::string_view name, std::uint64_t value) { figures.push_back({name, value}); }
  void real(std::string_view name, double value) { figures.push_back({name, value}); }
  void text(std::string_view name, std::string_view value) { figures.push_back({name, value}); }
  void seed(std::uint64_t number) { figures.push_back({"seed", Seed{number}}); }
};

}  // namespace sepal::value
