// Frees at once what a keyspace disposes of.
#pragma once

#include <sepal/keyspace/keyspace.hpp>

#include <memory>

namespace sepal::test {

class FreeingDisposer final : public keyspace::Disposer {
 public:
  void dispose(keyspace::FilterPtr) override {}
  void dispose_database(std::shared_ptr<const void>) override {}
};

}  // namespace sepal::test
