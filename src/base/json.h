// SPDX-License-Identifier: Apache-2.0
// JSON documents. Only json.cc includes the JSON library, because it adds seconds of compile time to every file that
// includes it.
//
//   Json list = Json::array();
//   list.push_back({{"name", "node0"}, {"targets", targets}, {"up", true}});
//   fmt::print("{}\n", list.dump(2));
#pragma once

#include <tutti/base.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tutti {

// A value of any kind. Members of objects keep the order in which they were added.
//
// Reading never fails: a missing value or a value of another kind reads as null, false, 0 or empty.
class Json {
 public:
  Json(std::nullptr_t = nullptr);
  Json(double number);
  Json(std::string text);
  Json(std::string_view text) : Json(std::string(text)) {}
  Json(const char* text) : Json(std::string(text)) {}
  template <std::same_as<bool> Flag>
  Json(Flag flag) : Json(Kind(flag)) {}
  template <std::unsigned_integral Number>
  requires(!std::same_as<Number, bool>) Json(Number number) : Json(Kind(std::uint64_t{number})) {}
  template <std::signed_integral Number>
  Json(Number number) : Json(number < 0 ? Kind(std::int64_t{number}) : Kind(static_cast<std::uint64_t>(number))) {}
  template <typename Item>
  Json(const std::vector<Item>& items) : Json(array()) {
    for (const Item& item : items) push_back(Json(item));
  }
  template <typename Item>
  Json(const std::map<std::string, Item>& members) : Json(object()) {
    for (const auto& [name, value] : members) (*this)[name] = Json(value);
  }
  // {{"name", value}, ...} is an object, anything else in braces an array.
  Json(std::initializer_list<Json> items);
  static Json array(std::initializer_list<Json> items = {});
  static Json object();

  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  void push_back(Json item);                // null becomes an array
  Json& operator[](std::string_view name);  // null becomes an object; a missing member is added
  const Json& operator[](std::string_view name) const;
  Json& operator[](std::size_t index);  // index < items().size()
  const Json& operator[](std::size_t index) const;
  void update(const Json& members);  // adds or replaces the members of another object

  bool is_null() const;
  bool boolean() const;
  double number() const;
  std::uint64_t count() const;  // a whole number, not negative
  const std::string& text() const;
  std::size_t size() const { return items().size() + members().size(); }
  bool empty() const { return size() == 0; }
  const std::vector<Json>& items() const;                            // of an array
  const std::vector<std::pair<std::string, Json>>& members() const;  // of an object

  // On one line, or with `indent` spaces per level. Invalid UTF-8 is replaced by U+FFFD.
  std::string dump(int indent = -1) const;
  std::string dump_ascii() const;  // on one line; characters outside ASCII are escaped

  friend bool operator==(const Json& a, const Json& b);  // numbers compare by value, objects also by order

 private:
  friend struct JsonLibrary;
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;
  using Kind = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;
  explicit Json(Kind kind);
  template <typename As>
  const As& as() const;

  Kind kind_;
};

Result<Json> parse_json(std::string_view text);

}  // namespace tutti
