// A housekeeper that frees filters and tables at once, does not settle pages, and ignores deadlines. Others
// derive from it, and override what their tests look at.
#pragma once

#include <sepal/keyspace/keyspace.hpp>

#include <memory>

namespace sepal::test {

class FreeingHousekeeper : public keyspace::Housekeeper {
 public:
  void dispose(sepal::value::ValuePtr) override {}
  void dispose_database(std::shared_ptr<const void>) override {}
  void give_pages(sepal::value::ValuePtr) override {}
  void due_at(keyspace::Deadline) override {}
};

}  // namespace sepal::test
