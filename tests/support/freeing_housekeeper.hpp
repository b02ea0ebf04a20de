// Frees at once what a keyspace disposes of, leaves pages as they are, and waits for no deadline.
#pragma once

#include <sepal/keyspace/keyspace.hpp>

#include <memory>

namespace sepal::test {

class FreeingHousekeeper final : public keyspace::Housekeeper {
 public:
  void dispose(keyspace::FilterPtr) override {}
  void dispose_database(std::shared_ptr<const void>) override {}
  void settle(filter::FilterPtr, filter::LayerView) override {}
  void due_at(keyspace::Deadline) override {}
};

}  // namespace sepal::test
