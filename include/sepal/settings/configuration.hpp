// The settings as CONFIG shows and changes them.
#pragma once

#include <sepal/command/services.hpp>
#include <sepal/settings/settings.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::settings {

struct Setting;

// Called inside the gate.
class Configuration final : public command::Configuration {
 public:
  // Shows `settings`, and changes their `runtime` and `keyspace`. Then it calls `changed`, with the gate
  // closed.
  Configuration(Settings& settings, std::function<void()> changed);

  [[nodiscard]] std::vector<Parameter> parameters() const override;
  [[nodiscard]] std::string get(std::string_view name) const override;
  [[nodiscard]] std::unique_ptr<command::Configuration::Draft> draft() override;

 private:
  class Draft;

  std::map<std::string, const Setting*, std::less<>> rows_;  // by the name of the parameter
  Settings& settings_;
  std::function<void()> changed_;
};

}  // namespace sepal::settings
