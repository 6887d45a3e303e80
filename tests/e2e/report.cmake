# SPDX-License-Identifier: Apache-2.0
tutti_test(report SOURCES ${CMAKE_CURRENT_LIST_DIR}/report_test.cc USES lab LABELS e2e TIMEOUT 90)
target_compile_definitions(report_test PRIVATE TUTTI_BINARY="$<TARGET_FILE:tutti>"
  TUTTI_REPORT_SCENARIO="${CMAKE_CURRENT_LIST_DIR}/report.toml")
add_dependencies(report_test tutti)
