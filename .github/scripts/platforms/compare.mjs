// Compares what probe.mjs found on a platform with what it found on this one: every answer must be the same, to the letter,
// and the kernel set the one that the platform should have.
//
//   node compare.mjs NAME KERNEL-SET REFERENCE.json RESULT.json [EMULATED-CPU]
import { existsSync, readFileSync } from 'node:fs'

const [name, expectedIsa, ...rest] = process.argv.slice(2)
if (!existsSync(rest[1])) {
  console.error(`${name}: Node ended without a result`)
  process.exit(1)
}
const [reference, result] = rest.slice(0, 2).map((file) => JSON.parse(readFileSync(file, 'utf8')))
const emulated = rest[2]
if (result.error !== undefined) {
  console.error(`${name}: ${result.error}`)
  process.exit(1)
}
const { platform, arch, node, cpu, isa, isas, threads } = result.where
const where = emulated ? `emulated ${emulated}` : cpu
console.log(
  `${name}: Node ${node} on ${platform}-${arch}, CPU ${where}, kernel set ${isa} of ${isas.join(', ')}, ${threads} threads`,
)
if (isa !== expectedIsa) {
  console.error(`${name}: expected the kernel set ${expectedIsa}`)
  process.exitCode = 1
}
for (const [how, answer] of Object.entries(result.answers)) {
  console.log(`  ${how} (${result.formats[how] ?? 'same model'}): ${JSON.stringify(answer)}`)
  const expected = reference.answers[how]
  if (answer === '' || answer !== expected) {
    console.error(`${name}: expected ${JSON.stringify(expected)}, which ${reference.where.isa} answers here`)
    process.exitCode = 1
  }
}
