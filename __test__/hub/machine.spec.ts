import t from 'tap'
import { memoryWarning } from '../../src/hub/machine.js'

const preview = JSON.stringify({
  hidden_size: 2048,
  num_hidden_layers: 24,
  num_experts: 256,
  moe_intermediate_size: 512,
})

t.test('memory is compared with what the weights will take once they are packed', (t) => {
  const cases: [string, string | undefined, number, number, RegExp | undefined][] = [
    ['16-bit, enough', preview, 40.5e9, 8e9, undefined],
    ['16-bit, too little', preview, 40.5e9, 6e9, /about 7\.\d GB of memory, and 6\.0 GB/],
    ['packed, enough', preview, 5.31e9, 5.9e9, undefined],
    ['packed, too little', preview, 5.31e9, 4e9, /about 5\.8 GB of memory, and 4\.0 GB/],
    ['no config', undefined, 5e9, 4e9, /5\.5 GB/],
    ['broken config', '{', 5e9, 8e9, undefined],
    ['strange config', 'null', 5e9, 8e9, undefined],
    ['negative sizes', preview.replace('2048', '-2048'), 5e9, 4e9, /5\.5 GB/],
  ]
  for (const [name, config, bytes, available, expected] of cases) {
    const warning = memoryWarning(config, bytes, available)
    if (expected === undefined) t.equal(warning, undefined, name)
    else t.match(warning, expected, name)
  }
  t.end()
})
