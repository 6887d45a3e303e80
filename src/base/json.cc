// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>

namespace tutti {

using Library = nlohmann::ordered_json;

// To and from the library's own values.
struct JsonLibrary {
  static Library to(const Json& json) { return std::visit(JsonLibrary{}, json.kind_); }
  static Json from(const Library& value) {
    switch (value.type()) {
      case Library::value_t::boolean:
        return value.get<bool>();
      case Library::value_t::number_integer:
        return value.get<std::int64_t>();
      case Library::value_t::number_unsigned:
        return value.get<std::uint64_t>();
      case Library::value_t::number_float:
        return value.get<double>();
      case Library::value_t::string:
        return value.get_ref<const std::string&>();
      case Library::value_t::array: {
        Json list = Json::array();
        for (const Library& item : value) list.push_back(from(item));
        return list;
      }
      case Library::value_t::object: {
        Json object = Json::object();
        for (const auto& [name, member] : value.items()) object[name] = from(member);
        return object;
      }
      default:
        return nullptr;
    }
  }

  Library operator()(const auto& plain) const { return plain; }
  Library operator()(const Json::Array& items) const {
    Library list = Library::array();
    for (const Json& item : items) list.push_back(to(item));
    return list;
  }
  Library operator()(const Json::Object& members) const {
    Library object = Library::object();
    for (const auto& [name, member] : members) object.emplace(name, to(member));
    return object;
  }
};

Json::Json(std::nullptr_t) : kind_(nullptr) {}
Json::Json(double number) : kind_(number) {}
Json::Json(std::string text) : kind_(std::move(text)) {}
Json::Json(Kind kind) : kind_(std::move(kind)) {}

Json::Json(std::initializer_list<Json> items) {
  const auto is_member = [](const Json& item) {
    return item.items().size() == 2 && std::holds_alternative<std::string>(item.items().front().kind_);
  };
  if (!std::all_of(items.begin(), items.end(), is_member)) {
    kind_ = Array(items);
    return;
  }
  Object& members = kind_.emplace<Object>();
  for (const Json& item : items) members.emplace_back(item.items()[0].text(), item.items()[1]);
}

Json Json::array(std::initializer_list<Json> items) {
  return Json(Kind(Array(items)));
}

Json Json::object() {
  return Json(Kind(Object()));
}

Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

void Json::push_back(Json item) {
  if (is_null()) kind_ = Array();
  std::get<Array>(kind_).push_back(std::move(item));
}

Json& Json::operator[](std::string_view name) {
  if (is_null()) kind_ = Object();
  Object& members = std::get<Object>(kind_);
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.first == name; });
  return found != members.end() ? found->second : members.emplace_back(std::string(name), nullptr).second;
}

const Json& Json::operator[](std::string_view name) const {
  static const Json none;
  for (const auto& [present, value] : members())
    if (present == name) return value;
  return none;
}

Json& Json::operator[](std::size_t index) {
  Array& items = std::get<Array>(kind_);
  assert(index < items.size());
  return items[index];
}

const Json& Json::operator[](std::size_t index) const {
  static const Json none;
  return index < items().size() ? items()[index] : none;
}

void Json::update(const Json& members) {
  for (const auto& [name, value] : members.members()) (*this)[name] = value;
}

bool Json::is_null() const {
  return std::holds_alternative<std::nullptr_t>(kind_);
}

template <typename As>
const As& Json::as() const {
  static const As none{};
  const As* value = std::get_if<As>(&kind_);
  return value ? *value : none;
}

bool Json::boolean() const {
  return as<bool>();
}

double Json::number() const {
  if (const auto* count = std::get_if<std::uint64_t>(&kind_)) return static_cast<double>(*count);
  if (const auto* whole = std::get_if<std::int64_t>(&kind_)) return static_cast<double>(*whole);
  return as<double>();
}

std::uint64_t Json::count() const {
  return as<std::uint64_t>();
}

const std::string& Json::text() const {
  return as<std::string>();
}

const std::vector<Json>& Json::items() const {
  return as<Array>();
}

const std::vector<std::pair<std::string, Json>>& Json::members() const {
  return as<Object>();
}

std::string Json::dump(int indent) const {
  return JsonLibrary::to(*this).dump(indent, ' ', false, Library::error_handler_t::replace);
}

std::string Json::dump_ascii() const {
  return JsonLibrary::to(*this).dump(-1, ' ', true, Library::error_handler_t::replace);
}

bool operator==(const Json& a, const Json& b) {
  const auto is_number = [](const Json& json) { return json.kind_.index() >= 2 && json.kind_.index() <= 4; };
  if (a.kind_.index() != b.kind_.index() && is_number(a) && is_number(b)) return a.number() == b.number();
  return a.kind_ == b.kind_;
}

Result<Json> parse_json(std::string_view text) {
  const Library value = Library::parse(text, nullptr, false);
  if (value.is_discarded())
    return fail(ErrorCode::kInvalid, fmt::format("not a JSON document: {}", text.substr(0, 80)));
  return JsonLibrary::from(value);
}

}  // namespace tutti
