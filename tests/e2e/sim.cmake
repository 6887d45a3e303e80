# SPDX-License-Identifier: Apache-2.0
add_test(NAME one_seed COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/one_seed.sh $<TARGET_FILE:tutti> ${CMAKE_SOURCE_DIR}/scenarios)
set_tests_properties(one_seed PROPERTIES LABELS e2e TIMEOUT 120)
add_test(NAME announced COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/announced.sh $<TARGET_FILE:tutti>
                                ${CMAKE_SOURCE_DIR}/scenarios/fast/one-of-eight.toml)
set_tests_properties(announced PROPERTIES LABELS e2e TIMEOUT 120)
add_test(NAME failed_operations COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/failed_operations.sh $<TARGET_FILE:tutti>
                                        ${CMAKE_SOURCE_DIR}/scenarios/fast/disks.toml)
set_tests_properties(failed_operations PROPERTIES LABELS e2e TIMEOUT 120)
add_test(NAME sim_study COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sim_study.sh $<TARGET_FILE:tutti> ${CMAKE_SOURCE_DIR}/scenarios)
set_tests_properties(sim_study PROPERTIES LABELS e2e TIMEOUT 120)

# Fresh seeds for a minute; prints the first one. Longer: tutti sim faults --seeds 10000
set(seconds 60)
if(TUTTI_SANITIZE)
  set(seconds 20)
endif()
add_test(NAME faults COMMAND tutti sim faults --seconds ${seconds})
set_tests_properties(faults PROPERTIES LABELS "e2e;cluster" TIMEOUT 300)
add_dependencies(suites tutti)
